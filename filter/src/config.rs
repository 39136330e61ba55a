//! The plugin configuration. Refused as a whole, with every fault named.

mod section;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use self::section::Section;
use crate::head::Head;
use crate::scan::Pointer;

const DEFAULT_CLUSTER: &str = "turnstone";
const DEFAULT_POINTER: &str = "/clientId";

/// What the filter was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Envoy's name for the cluster of the sidecar.
    pub cluster: String,
    pub rules: Vec<Rule>,
    /// Tell the caller how long its request was held.
    pub waited_header: bool,
    /// Let requests pass unpaced while the sidecar cannot be reached.
    pub fail_open: bool,
}

/// Which requests are paced, under which policy, and whose they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub policy: String,
    /// Host names; with a port only that port. Empty: all.
    pub authorities: Vec<String>,
    pub path_prefix: String,
    /// Empty: all.
    pub methods: Vec<String>,
    /// The first that finds an id wins.
    pub client_id: Vec<Source>,
    pub on_missing: OnMissing,
}

/// Where a client id may stand.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Json(Pointer),
    Form(String),
    Header(HeaderName),
    Query(String),
}

/// In lower case, as Envoy delivers it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "String")]
pub struct HeaderName(pub String);

impl From<String> for HeaderName {
    fn from(name: String) -> Self {
        Self(name.to_ascii_lowercase())
    }
}

/// What happens to a request without a client id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnMissing {
    /// All such requests share one lane: never dropped, never unpaced.
    #[default]
    Shared,
    Pass,
    Reject,
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is no JSON pointer of at most 16 levels, like \"/clientId\""))
        })
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is refused: {}", self.0.join("; "))
    }
}

impl Config {
    /// # Errors
    /// Anything is wrong; all faults are named with their place.
    pub fn parse(text: &[u8]) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let value = serde_json::from_slice(text).map_err(|error| {
            Faults(vec![format!("it is no JSON ({error}); give it as a google.protobuf.StringValue")])
        })?;
        let config = Section::new("", value, &mut faults).map(Self::read);
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            Some(_) | None => Err(Faults(faults)),
        }
    }

    fn read(mut section: Section<'_>) -> Self {
        let cluster = section.take("cluster").unwrap_or_else(|| DEFAULT_CLUSTER.to_owned());
        let waited_header = section.take("waited_header").unwrap_or(true);
        let fail_open = section.take("fail_open").unwrap_or(false);
        let rules: Vec<Value> = section.take("rules").unwrap_or_default();
        if rules.is_empty() {
            section.fault("rules", "there is none; write at least [{\"policy\": \"raven\"}]");
        }
        let rules = rules.into_iter().enumerate().filter_map(|(index, value)| {
            let path = format!("rules[{index}]");
            Section::new(&path, value, section.faults).map(Rule::read)
        });
        let rules = rules.collect();
        section.finish();
        Self { cluster, rules, waited_header, fail_open }
    }

    /// The first rule that matches, and its place.
    pub fn rule(&self, head: &Head<'_>) -> Option<(usize, &Rule)> {
        self.rules.iter().enumerate().find(|(_, rule)| rule.matches(head))
    }
}

impl Rule {
    fn read(mut section: Section<'_>) -> Self {
        let policy: Option<String> = section.take("policy");
        if policy.as_ref().is_none_or(String::is_empty) {
            section.fault("policy", "must name a policy of the sidecar, like \"raven\"");
        }
        let sources = section.take("client_id");
        if sources.as_ref().is_some_and(Vec::is_empty) {
            section.fault("client_id", "must have at least one source, like {\"json\": \"/clientId\"}");
        }
        let rule = Self {
            policy: policy.unwrap_or_default(),
            authorities: section.take("authorities").unwrap_or_default(),
            path_prefix: section.take("path_prefix").unwrap_or_default(),
            methods: section.take("methods").unwrap_or_default(),
            client_id: sources
                .unwrap_or_else(|| Pointer::parse(DEFAULT_POINTER).map(Source::Json).into_iter().collect()),
            on_missing: section.take("on_missing").unwrap_or_default(),
        };
        section.finish();
        rule
    }

    pub fn matches(&self, head: &Head<'_>) -> bool {
        let method = head.get(":method").unwrap_or_default();
        head.path().starts_with(&self.path_prefix)
            && (self.methods.is_empty() || self.methods.iter().any(|known| known == method))
            && (self.authorities.is_empty() || self.names(head.get(":authority").unwrap_or_default()))
    }

    fn names(&self, authority: &str) -> bool {
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) | None => authority,
        };
        self.authorities.iter().any(|known| known.eq_ignore_ascii_case(authority) || known.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_smallest_configuration_paces_all_by_client_id() {
        let config = Config::parse(br#"{"rules":[{"policy":"raven"}]}"#).unwrap();
        assert_eq!((config.cluster.as_str(), config.fail_open, config.waited_header), ("turnstone", false, true));
        assert_eq!(config.rules[0].client_id, [Source::Json(Pointer::parse("/clientId").unwrap())]);
        assert!(config.rules[0].matches(&Head::new(&[])));
    }

    #[test]
    fn every_fault_is_named_with_its_place() {
        let text = br#"{"clutser":"x","fail_open":"no","rules":[
            {"policy":"","client_id":[{"json":"clientId"}],"on_missing":"drop"},
            {"policy":"a","client_id":[],"path":"/"}, 7, {"policy":"a","client_id":[{"cookie":"x"}]}]}"#;
        let Faults(faults) = Config::parse(text).unwrap_err();
        for place in [
            "clutser: ",
            "fail_open: ",
            "rules[0].policy: ",
            "rules[0].client_id: ",
            "rules[0].on_missing: ",
            "rules[1].client_id: ",
            "rules[1].path: ",
            "rules[2]: ",
            "rules[3].client_id: ",
        ] {
            assert_eq!(faults.iter().filter(|fault| fault.starts_with(place)).count(), 1, "{place} {faults:#?}");
        }
        assert_eq!(faults.len(), 9, "{faults:#?}");
        for nothing in [&b""[..], b"[]", b"{", b"{}"] {
            assert!(Config::parse(nothing).is_err());
        }
    }

    #[test]
    fn rules_match_by_authority_path_and_method() {
        let text = br#"{"rules":[{"policy":"a","authorities":["Raven.example","crow:81"],"path_prefix":"/v1","methods":["POST"]}]}"#;
        let config = Config::parse(text).unwrap();
        let matches = |authority, path, method| {
            let headers = head(&[(":authority", authority), (":path", path), (":method", method)]);
            config.rule(&Head::new(&headers)).is_some()
        };
        assert!(matches("raven.example", "/v1/x?y", "POST"));
        assert!(matches("raven.example:8080", "/v1", "POST"));
        assert!(matches("crow:81", "/v1", "POST"));
        assert!(!matches("crow", "/v1", "POST"));
        assert!(!matches("raven.example", "/v2?/v1", "POST"));
        assert!(!matches("raven.example", "/v1", "GET"));
    }
}
