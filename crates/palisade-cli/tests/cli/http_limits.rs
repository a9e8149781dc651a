//! What clients over HTTP can take of the server: time, connections, bytes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::http::{BOT, PATIENCE, Request, Server, desk, exchange, make_token};

/// More than any client is waited for.
const LONGEST: Duration = Duration::from_secs(60);

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream
}

/// What the server says until it closes the connection.
fn read_all(mut stream: TcpStream) -> String {
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    String::from_utf8(told).unwrap()
}

#[test]
fn slow_clients_do_not_stay() {
    let desk = desk("");
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let began = Instant::now();
    // One sends no end of its head, one nothing at all, and one no end of its body.
    let mut head = connect(&server);
    head.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        .unwrap();
    let idle = connect(&server);
    let mut body = connect(&server);
    let start = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{"
    );
    body.write_all(start.as_bytes()).unwrap();
    // Others are answered meanwhile.
    assert_eq!(server.send(&Request::get("/healthz")).status, 200);
    for stream in [head, idle] {
        let told = read_all(stream);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(28),
        "{:?}",
        began.elapsed()
    );
    let told = read_all(body);
    assert!(told.starts_with("HTTP/1.1 408"), "{told}");
    assert!(began.elapsed() < LONGEST);
}

#[test]
fn connections_of_one_address_are_bounded() {
    let desk = desk("connections = 8");
    let server = Server::start(&desk);
    let health = Request::get("/healthz").write(&server.address);
    // A quarter of eight.
    let first = connect(&server);
    let second = connect(&server);
    sleep(Duration::from_millis(200));
    let mut third = connect(&server);
    let _ = third.write_all(health.as_bytes());
    assert_eq!(read_all(third), "");
    drop(first);
    let began = Instant::now();
    loop {
        let mut next = connect(&server);
        let _ = next.write_all(health.as_bytes());
        if read_all(next).starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(began.elapsed() < PATIENCE);
        sleep(Duration::from_millis(50));
    }
    drop(second);
}

#[test]
fn heads_are_bounded() {
    let desk = desk("");
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let good = Request::post("/mcp", &list).bearer(&token);
    let many = (0..150).fold(good.clone(), |request, n| {
        request.header(&format!("X-{n}"), "x")
    });
    for large in [good.clone().header("X-Large", &"x".repeat(200_000)), many] {
        let text = large.write(&server.address);
        let mut stream = connect(&server);
        // The server may close before it has read all.
        let _ = stream.write_all(text.as_bytes());
        let told = read_all(stream);
        assert!(
            told.is_empty() || told.starts_with("HTTP/1.1 431"),
            "{told}"
        );
    }
    let answer = exchange(connect(&server), &good.write(&server.address));
    assert_eq!(answer.status, 200);
}
