//! Every way in which a request can travel ends in a turn or in the documented pass, none in a hang.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstone_tests::world::{Penguin, Plan, assert_all_ok};

use crate::{LATE, ms};

const HEADER: &str = r#"[{"policy": "raven", "client_id": [{"header": "X-Client"}]}]"#;

/// Sends pieces of a raw HTTP/1.1 request and reads to the end of the answer, which must come in time.
async fn raw(penguin: &Penguin, pieces: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(penguin.envoy.address()).await.expect("Envoy accepts");
    stream.set_nodelay(true).expect("a socket option");
    for piece in pieces {
        stream.write_all(piece).await.expect("Envoy reads");
    }
    read_until(&mut stream, "never").await
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&text).contains(end) {
            assert!(stream.read_buf(&mut text).await.expect("readable") > 0, "{:?}", String::from_utf8_lossy(&text));
        }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("an answer in time");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn case_36_one_byte_chunks_are_paced_by_their_id() {
    let world = Plan::every(ms(1000)).start().await;
    let penguin = &world.penguins[0];
    let body = br#"{"clientId":"tiny","n":1}"#;
    let chunks: Vec<Vec<u8>> = body.iter().map(|byte| [b"1\r\n", &[*byte][..], b"\r\n"].concat()).collect();
    let mut pieces: Vec<&[u8]> = vec![b"POST /x HTTP/1.1\r\nhost: raven\r\ntransfer-encoding: chunked\r\n\r\n"];
    pieces.extend(chunks.iter().map(Vec::as_slice));
    pieces.push(b"0\r\n\r\n");
    assert_all_ok(vec![world.send(0, "tiny", 0)]).await;
    assert!(raw(penguin, &pieces).await.starts_with("HTTP/1.1 200"));
    world.lanes().assert_paced(ms(1000), LATE);
    assert_eq!(world.lanes().order("tiny"), [0, 1]);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_36_http_1_trailers_end_the_request() {
    let world = Plan::every(ms(1000))
        .replace(
            "stat_prefix: egress",
            "stat_prefix: egress\n          http_protocol_options: { enable_trailers: true }",
        )
        .start()
        .await;
    assert_all_ok(vec![world.send(0, "t", 0)]).await;
    let request = b"POST /x HTTP/1.1\r\nhost: raven\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                    19\r\n{\"clientId\":\"t\",\"n\":1   }\r\n0\r\nx-sum: 1\r\n\r\n";
    assert!(raw(&world.penguins[0], &[request]).await.starts_with("HTTP/1.1 200"));
    world.lanes().assert_paced(ms(1000), LATE);
    assert_eq!(world.lanes().order("t"), [0, 1]);
}

#[tokio::test]
async fn case_36_http_2_with_trailers_is_paced_by_its_id() {
    let world = Plan::every(ms(1000)).start().await;
    assert_all_ok(vec![world.send(0, "t", 0)]).await;
    let stream = TcpStream::connect(world.penguins[0].envoy.address()).await.expect("Envoy accepts");
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    for n in 1..4 {
        let mut sender = sender.clone().ready().await.expect("ready");
        let request = http::Request::post("http://raven/x").body(()).expect("a request");
        let (answer, mut body) = sender.send_request(request, false).expect("sent");
        let text = format!(r#"{{"clientId":"t","n":{n}}}"#);
        // No body at all before the trailers of the last one: it names nobody.
        if n < 3 {
            body.send_data(Bytes::from(text), false).expect("sent");
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().expect("a value"));
        body.send_trailers(trailers).expect("sent");
        assert_eq!(answer.await.expect("an answer").status(), 200);
    }
    let lanes = world.lanes();
    assert_eq!(lanes.order("t"), [0, 1, 2]);
    lanes.assert_paced(ms(1000), LATE);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_missing_id").await, 1);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_38_expect_100_continue_as_envoy_does_it_by_default() {
    let world = Plan::every(ms(500)).start().await;
    for n in 0..2 {
        let mut stream = TcpStream::connect(world.penguins[0].envoy.address()).await.expect("Envoy accepts");
        let body = format!(r#"{{"clientId":"e","n":{n}}}"#);
        let head = format!(
            "POST /x HTTP/1.1\r\nhost: raven\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        read_until(&mut stream, "HTTP/1.1 100").await;
        stream.write_all(body.as_bytes()).await.expect("sent");
        assert!(read_until(&mut stream, "never").await.contains("HTTP/1.1 200"));
    }
    assert_eq!(world.lanes().order("e"), [0, 1]);
    world.lanes().assert_paced(ms(500), LATE);
}

#[tokio::test]
async fn case_38_a_go_ahead_that_only_raven_gives_is_waited_for_in_the_shared_lane() {
    let plan =
        Plan::every(ms(500)).replace("stat_prefix: egress", "stat_prefix: egress\n          proxy_100_continue: true");
    let world = plan.start().await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(world.penguins[0].envoy.address()).await.expect("Envoy accepts");
        let head = b"POST /x HTTP/1.1\r\nhost: raven\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
        stream.write_all(head).await.expect("sent");
        read_until(&mut stream, "HTTP/1.1 100").await;
        stream.write_all(b"body").await.expect("sent");
        assert!(read_until(&mut stream, "never").await.contains("HTTP/1.1 200"));
    }
    world.lanes().assert_paced(ms(500), LATE);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_missing_id").await, 2);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_38_a_get_and_an_upgrade_are_paced_where_a_rule_says_so_and_else_untouched() {
    let rules = r#"[{"policy": "raven", "path_prefix": "/paced", "client_id": [{"header": "X-Client"}]}]"#;
    let upgrades = "stat_prefix: egress\n          upgrade_configs: [{ upgrade_type: websocket }]";
    let world = Plan::every(ms(1000)).rules(rules).replace("stat_prefix: egress", upgrades).start().await;
    let penguin = &world.penguins[0];
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: raven\r\nx-client: g\r\n\r\n");
    let upgrade = |path: &str| get(path).replace("x-client", "upgrade: websocket\r\nconnection: upgrade\r\nx-client");
    for path in ["/free", "/paced"] {
        for (request, status) in [(get(path), "HTTP/1.1 200"), (upgrade(path), "HTTP/1.1 101")] {
            assert!(raw(penguin, &[request.as_bytes()]).await.starts_with(status), "{request}");
        }
    }
    let arrivals = world.raven.arrivals();
    let at = |index: usize| arrivals[index].at;
    assert_eq!(
        arrivals.iter().map(|arrival| arrival.path.as_str()).collect::<Vec<_>>(),
        ["/free", "/free", "/paced", "/paced"]
    );
    assert!(at(2) - at(0) < ms(500), "what no rule matches does not wait");
    assert!(at(3) - at(2) >= ms(1000) && at(3) - at(2) < ms(1000) + LATE);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn ids_from_header_query_and_form_are_one_lane() {
    let rules = r#"[{"policy": "raven", "client_id": [{"header": "X-Client"}, {"query": "client"}, {"form": "client"}, {"json": "/who/0"}]}]"#;
    let world = Plan::every(ms(300)).rules(rules).start().await;
    let penguin = &world.penguins[0];
    let url = penguin.url();
    let post = || penguin.client.post(&url);
    assert_all_ok(vec![
        penguin.send_raw(post().header("x-client", "s p").body("{}")),
        penguin.send_raw(penguin.client.get(format!("{url}?client=s%20p"))),
        penguin.send_raw(post().header("content-type", "application/x-www-form-urlencoded").body("client=s+p")),
        penguin.send_raw(post().body(r#"{"who":["s p"]}"#)),
    ])
    .await;
    let at: Vec<_> = world.raven.arrivals().iter().map(|arrival| arrival.at).collect();
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= ms(300)), "{at:?}");
    assert_eq!(penguin.envoy.counter("turnstone_filter_missing_id").await, 0);
}

#[tokio::test]
async fn nothing_goes_round_the_pace_by_headers_of_the_caller() {
    let world = Plan::every(ms(500)).rules(HEADER).start().await;
    world.raven.fail(1);
    let penguin = &world.penguins[0];
    let send = || {
        let request = penguin.client.post(penguin.url()).header("x-client", "c").header("x-envoy-retry-on", "5xx");
        penguin.send_raw(
            request
                .header("x-envoy-max-retries", "3")
                .header("x-turnstone-turn", "forged")
                .header("x-turnstone-x", "y"),
        )
    };
    let (first, second) = (send().await.expect("a reply"), send().await.expect("a reply"));
    assert_eq!((first.status, second.status), (503, 200));
    let arrivals = world.raven.arrivals();
    assert_eq!(arrivals.len(), 2, "no retry by Envoy");
    assert!(arrivals[1].at - arrivals[0].at >= ms(500));
    let turn = |index: usize| arrivals[index].headers["x-turnstone-turn"].parse::<i64>().expect("a revision");
    assert!(turn(1) > turn(0), "a fencing number rises");
    assert!(!arrivals[0].headers.contains_key("x-turnstone-x"));
}

#[tokio::test]
async fn the_access_log_names_the_waited_time_and_filter_and_sidecar_can_talk_over_tcp() {
    let world = Plan::every(ms(500)).tcp().start().await;
    let replies = assert_all_ok(world.send_in_order("a", 0..2).await).await;
    let waited = replies[1].waited_ms.expect("the filter says how long");
    assert!(waited >= 400, "{waited}");
    let line = format!("waited_ms={waited} ");
    let logged = async || world.penguins[0].envoy.process.output().contains(&line);
    turnstone_tests::until("the access log has the line", ms(5000), logged).await;
}

#[tokio::test]
async fn a_grpc_call_gets_its_turn_before_its_body_ends() {
    let world = Plan::every(ms(500)).rules(HEADER).start().await;
    let penguin = &world.penguins[0];
    let stream = TcpStream::connect(penguin.envoy.address()).await.expect("Envoy accepts");
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut sender = sender.ready().await.expect("ready");
    let request =
        http::Request::post("http://raven/x").header("content-type", "application/grpc").header("x-client", "g");
    let (answer, mut body) = sender.send_request(request.body(()).expect("a request"), false).expect("sent");
    let granted = async || penguin.envoy.counter("turnstone_filter_granted").await == 1;
    turnstone_tests::until("the open stream has its turn", ms(5000), granted).await;
    body.send_data(Bytes::from_static(b"message"), true).expect("sent");
    assert_eq!(answer.await.expect("an answer").status(), 200);
    world.assert_no_trap().await;
}
