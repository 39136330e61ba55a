//! Reads a TOML table and collects every fault, not only the first.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use toml::{Table, Value};

/// What is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place, as TOML writes it: `policies.raven.interval`.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Every fault found so far.
#[derive(Debug, Default)]
pub struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub fn add(&self, path: impl Into<String>, message: impl Into<String>) {
        self.0.borrow_mut().push(Fault { path: path.into(), message: message.into() });
    }

    pub fn into_inner(self) -> Vec<Fault> {
        self.0.into_inner()
    }
}

/// One table of the file; keys are taken out one by one, and what is left over is unknown.
pub struct Section<'a> {
    path: String,
    table: Table,
    known: Vec<&'static str>,
    faults: &'a Faults,
}

impl<'a> Section<'a> {
    pub fn root(table: Table, faults: &'a Faults) -> Self {
        Self { path: String::new(), table, known: Vec::new(), faults }
    }

    /// The full path of a key in this section.
    pub fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => self.wrong(key, "a text in quotes", &other),
        }
    }

    /// A text, or a list of texts.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let value = self.take(key)?;
        match value {
            Value::String(text) => Some(vec![text]),
            Value::Array(items) if items.iter().all(Value::is_str) => {
                Some(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
            }
            other => self.wrong(key, "a text in quotes, or a list of them", &other),
        }
    }

    pub fn span(&mut self, key: &'static str, least: Duration) -> Option<Duration> {
        let value = self.take(key)?;
        span(&self.path_of(key), &value, least, self.faults)
    }

    /// A whole number, not negative.
    pub fn count(&mut self, key: &'static str) -> Option<u64> {
        match self.take(key)? {
            Value::Integer(count) if count >= 0 => Some(count.unsigned_abs()),
            other => self.wrong(key, "a whole number, like 100", &other),
        }
    }

    /// A table whose keys the user chose.
    pub fn entries(&mut self, key: &'static str) -> Vec<(String, Value)> {
        match self.take(key) {
            Some(Value::Table(table)) => table.into_iter().collect(),
            Some(other) => self.wrong(key, "a table", &other).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// A section below this one, under a key the user chose.
    pub fn below(&self, parent: &str, key: &str, value: Value) -> Option<Section<'a>> {
        let path = join(&self.path_of(parent), key);
        match value {
            Value::Table(table) => Some(Section { path, table, known: Vec::new(), faults: self.faults }),
            other => {
                self.faults.add(path, format!("is {}, must be a table", kind(&other)));
                None
            }
        }
    }

    /// Whatever was not asked for is a fault: a typing error must not become a default.
    pub fn finish(self) {
        for key in self.table.keys() {
            let known = self.known.join(", ");
            self.faults.add(self.path_of(key), format!("is no setting; known here are: {known}"));
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn wrong<T>(&self, key: &str, right: &str, found: &Value) -> Option<T> {
        self.faults.add(self.path_of(key), format!("is {}, must be {right}", kind(found)));
        None
    }
}

/// A span of time with its unit, like `"5s"`.
pub fn span(path: &str, value: &Value, least: Duration, faults: &Faults) -> Option<Duration> {
    let Some(text) = value.as_str() else {
        faults.add(path, format!("is {}, must be a time with its unit, like \"5s\" or \"250ms\"", kind(value)));
        return None;
    };
    match humantime::parse_duration(text) {
        Ok(span) if span >= least => Some(span),
        Ok(_) => {
            faults.add(path, format!("is {text:?}, must be at least {}", humantime::format_duration(least)));
            None
        }
        Err(error) => {
            faults.add(path, format!("is {text:?}, must be a time with its unit, like \"5s\" or \"250ms\" ({error})"));
            None
        }
    }
}

/// A key that TOML would quote stands quoted.
pub fn join(path: &str, key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let key = if !key.is_empty() && key.bytes().all(plain) { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}
