use proptest::prelude::*;

use super::*;

fn at(pointer: &str, body: &[u8]) -> Option<String> {
    json(body, &Pointer::parse(pointer).expect("a pointer")).map(Cow::into_owned)
}

fn client(body: &str) -> Option<String> {
    at("/clientId", body.as_bytes())
}

#[test]
fn strings_and_integers_are_ids_and_7_is_7() {
    assert_eq!(client(r#"{"clientId": 7}"#).as_deref(), Some("7"));
    assert_eq!(client(r#"{"clientId": "7"}"#).as_deref(), Some("7"));
    assert_eq!(client(r#"{"clientId": -0}"#).as_deref(), Some("0"));
    let big = "123456789012345678901234567890";
    assert_eq!(client(&format!(r#"{{"clientId": {big}}}"#)).as_deref(), Some(big));
}

#[test]
fn all_else_is_missing() {
    for value in ["true", "null", "{}", "[]", "[7]", "1.5", "7.0", "1e3", r#""""#] {
        assert_eq!(client(&format!(r#"{{"clientId": {value}}}"#)), None, "{value}");
    }
    for body in ["", " ", "7", "[]", "null", "{}", "nonsense", r#"{"meta":{"clientId":"no"}}"#] {
        assert_eq!(client(body), None, "{body}");
    }
}

#[test]
fn of_a_repeated_key_the_last_counts() {
    assert_eq!(client(r#"{"clientId":"a","clientId":"b"}"#).as_deref(), Some("b"));
    assert_eq!(client(r#"{"clientId":"a","clientId":null}"#), None);
    assert_eq!(at("/a/b", br#"{"a":{"b":"x"},"a":{}}"#), None);
}

#[test]
fn escapes_are_read_in_keys_and_values() {
    assert_eq!(client(r#"{"client\u0049d":"x"}"#).as_deref(), Some("x"));
    assert_eq!(client(r#"{"clientId":"a\n\u0000\ud83e\udd80"}"#).as_deref(), Some("a\n\0🦀"));
    assert_eq!(client(r#"{"clientId":"\ud800"}"#), None, "half a surrogate pair");
}

#[test]
fn only_a_whole_document_counts() {
    let whole = r#"{"clientId":"a","rest":[1,{"x":"y"}]}"#;
    for cut in 0..whole.len() {
        assert_eq!(at("/clientId", &whole.as_bytes()[..cut]), None, "cut at {cut}");
    }
    assert_eq!(client(&format!("{whole} \n")).as_deref(), Some("a"));
    assert_eq!(client(&format!("{whole},")), None);
}

#[test]
fn depth_costs_no_stack() {
    for depth in [127, 128, 129, 10_000, 1_000_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(client(&format!(r#"{{"deep":{deep},"clientId":"a"}}"#)).as_deref(), Some("a"));
        assert_eq!(client(&format!(r#"{{"clientId":{deep}}}"#)), None);
        assert_eq!(client(&"{\"clientId\":".repeat(depth)), None);
    }
}

#[test]
fn invalid_utf8_in_the_id_is_missing() {
    assert_eq!(at("/clientId", b"{\"clientId\":\"a\xff\"}"), None);
}

#[test]
fn pointers_follow_rfc_6901() {
    let body = br#"{"a/b":{"m~n":["x",{"":"y"},7]},"":"z"}"#;
    assert_eq!(at("/a~1b/m~0n/0", body).as_deref(), Some("x"));
    assert_eq!(at("/a~1b/m~0n/1/", body).as_deref(), Some("y"));
    assert_eq!(at("/a~1b/m~0n/2", body).as_deref(), Some("7"));
    assert_eq!(at("/a~1b/m~0n/02", body), None);
    assert_eq!(at("/a~1b/m~0n/-", body), None);
    assert_eq!(at("/", body).as_deref(), Some("z"));
    assert_eq!(at("", b"\"whole\"").as_deref(), Some("whole"));
    for wrong in ["clientId", "/~", "/~2"] {
        assert_eq!(Pointer::parse(wrong), None, "{wrong}");
    }
    assert_eq!(Pointer::parse(&"/a".repeat(17)), None);
}

#[test]
fn forms_and_queries() {
    assert_eq!(form(b"a=1&clientId=x%20y&clientId=b+c", "clientId").as_deref(), Some("b c"));
    assert_eq!(form(b"clientId=", "clientId"), None);
    assert_eq!(form(b"clientId", "clientId"), None);
    assert_eq!(form(b"", "clientId"), None);
}

proptest! {
    #[test]
    fn agrees_with_a_full_parser(value in arbitrary_json()) {
        let body = value.to_string();
        let expected = match value.pointer("/a/b") {
            Some(serde_json::Value::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(serde_json::Value::Number(number)) if !number.is_f64() => Some(number.to_string()),
            Some(_) | None => None,
        };
        prop_assert_eq!(at("/a/b", body.as_bytes()), expected);
    }

    #[test]
    fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = at("/clientId", &body);
        let _ = form(&body, "clientId");
    }

    #[test]
    fn a_broken_document_is_missing_or_whole(value in arbitrary_json(), at_byte in any::<usize>(), byte in any::<u8>()) {
        let mut body = value.to_string().into_bytes();
        let index = at_byte % body.len();
        body[index] = byte;
        if at("/a/b", &body).is_some() {
            let parsed: Result<IgnoredAny, _> = serde_json::from_slice(&body);
            prop_assert!(parsed.is_ok());
        }
    }
}

fn arbitrary_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[ab]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    });
    inner.prop_flat_map(|value| Just(serde_json::json!({ "a": { "b": value.clone() }, "b": value })))
}
