//! Reads a JSON object and collects every fault, not only the first.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// One object of the configuration; what is not taken out of it is unknown.
pub(super) struct Section<'a> {
    path: String,
    object: Map<String, Value>,
    known: Vec<&'static str>,
    pub faults: &'a mut Vec<String>,
}

impl<'a> Section<'a> {
    pub fn new(path: &str, value: Value, faults: &'a mut Vec<String>) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self { path: path.to_owned(), object, known: Vec::new(), faults }),
            _ => {
                let place = if path.is_empty() { "the whole" } else { path };
                faults.push(format!("{place}: must be a JSON object"));
                None
            }
        }
    }

    pub fn take<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        let value = self.object.remove(key)?;
        serde_json::from_value(value).map_err(|error| self.fault(key, &error.to_string())).ok()
    }

    pub fn fault(&mut self, key: &str, message: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.faults.push(format!("{}{dot}{key}: {message}", self.path));
    }

    pub fn finish(mut self) {
        let known = self.known.join(", ");
        for key in std::mem::take(&mut self.object).keys() {
            self.fault(key, &format!("is no setting; known here are: {known}"));
        }
    }
}
