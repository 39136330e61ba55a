//! Finds the client id in a body or a query.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deeper pointers have no use, and each level costs stack.
const MAX_DEPTH: usize = 16;

/// An RFC 6901 JSON pointer, like `/clientId`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// `None`: it is no pointer, or more than sixteen levels deep.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let tokens: Option<Vec<String>> = text.strip_prefix('/')?.split('/').map(unescape).collect();
        tokens.filter(|tokens| tokens.len() <= MAX_DEPTH).map(Self)
    }
}

/// `~1` is `/` and `~0` is `~`; any other `~` is an error.
fn unescape(token: &str) -> Option<String> {
    let mut text = String::with_capacity(token.len());
    let mut letters = token.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '~' => match letters.next() {
                Some('0') => '~',
                Some('1') => '/',
                Some(_) | None => return None,
            },
            other => other,
        });
    }
    Some(text)
}

/// The string or integer at `pointer`; of a repeated key the last one counts.
///
/// `None` where there is none, it is something else, or the body is not one whole JSON document.
pub fn json<'a>(body: &'a [u8], pointer: &Pointer) -> Option<Cow<'a, str>> {
    let mut document = serde_json::Deserializer::from_slice(body);
    let found = Find(&pointer.0).deserialize(&mut document).ok()?;
    document.end().ok()?;
    id(found?.get())
}

/// The last value of `field` in `a=b&c=d` (a form or a query).
pub fn form<'a>(text: &'a [u8], field: &str) -> Option<Cow<'a, str>> {
    let (_, value) = form_urlencoded::parse(text).filter(|(name, _)| name == field).last()?;
    Some(value).filter(|value| !value.is_empty())
}

/// A JSON text as an id: strings without their quotes, integers as they stand.
fn id(raw: &str) -> Option<Cow<'_, str>> {
    if raw.starts_with('"') {
        let text: Text<'_> = serde_json::from_str(raw).ok()?;
        return Some(text.0).filter(|text| !text.is_empty());
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    integer.then_some(Cow::Borrowed(if digits == "0" { "0" } else { raw }))
}

/// Borrows where nothing is escaped.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Walks down one pointer and skips all else, however deep, without recursion.
#[derive(Clone, Copy)]
struct Find<'p>(&'p [String]);

type Found<'de> = Option<&'de RawValue>;

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found<'de>, D::Error> {
        if self.0.is_empty() {
            return serde::Deserialize::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if key.0 == first.as_str() {
                found = map.next_value_seed(Find(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Found<'de>, A::Error> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        let canonical = first == "0" || !first.starts_with(['0', '+']);
        let wanted: Option<usize> = first.parse().ok().filter(|_| canonical);
        let mut found = None;
        for index in 0.. {
            if wanted == Some(index) {
                match seq.next_element_seed(Find(rest))? {
                    Some(element) => found = element,
                    None => break,
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found<'de>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found<'de>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Found<'de>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found<'de>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Found<'de>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Found<'de>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
