//! What must stay true of the tree: who may depend on whom, and how long a page may be.

use anyhow::{Result, ensure};

use crate::shell::{cargo, output, root, say};

const README_LINES: usize = 200;

pub fn check() -> Result<()> {
    say("checking who depends on whom");
    let lane = tree("turnstone-lane")?;
    ensure!(lane.lines().count() == 1, "the lane decides when: it must stay free of dependencies, but has\n{lane}");
    let filter = tree("turnstone-filter")?;
    ensure!(!filter.contains("tokio"), "the filter must not see tokio:\n{filter}");
    sdk_only_in_the_shell()?;
    let readme = std::fs::read_to_string(root().join("README.md"))?.lines().count();
    ensure!(readme < README_LINES, "README.md has {readme} lines, must have fewer than {README_LINES}");
    Ok(())
}

fn tree(package: &str) -> Result<String> {
    output(&mut cargo(&["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--target", "all"]))
}

fn sdk_only_in_the_shell() -> Result<()> {
    for entry in std::fs::read_dir(root().join("filter/src"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            ensure!(!text.contains("proxy_wasm::"), "{}: the SDK belongs into filter/src/shell", path.display());
        }
    }
    Ok(())
}
