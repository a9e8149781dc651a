//! `palisade probe`, as a container engine runs it.

use std::{
    io::Write as _,
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use crate::{
    desk::{Answer, Desk},
    http::{Server, desk},
};

/// Probes until a server is well, whose databases open behind its start; the last answer.
pub(crate) fn probe_until_well(probe: impl Fn() -> Answer) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = probe();
        if answer.exit == 0 || begun.elapsed() > Duration::from_secs(60) {
            return answer;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_probe_tells_whether_a_server_is_well() {
    let desk = desk("");
    let server = Server::start(&desk);
    let base = format!("http://{}", server.address);
    for path in ["/healthz", "/readyz"] {
        let answer = probe_until_well(|| desk.run(&["probe", &format!("{base}{path}")]));
        assert_eq!((answer.exit, &*answer.out, &*answer.err), (0, "", ""));
    }
    // What is not there, and what wants a token, is not well.
    for path in ["/nothing", "/mcp"] {
        desk.run(&["probe", &format!("{base}{path}")])
            .fails(1, &["not well", "it answered 40"]);
    }
    drop(server);
    desk.run(&["probe", &format!("{base}/healthz")])
        .fails(1, &["not well"]);
    for url in ["127.0.0.1:8080", "ftp://x/", "http://", "http://a@b/"] {
        desk.run(&["probe", url]).fails(2, &["no address", "help:"]);
    }
}

/// The certificate names the server as others call it, and a probe asks on the machine itself.
#[test]
fn a_probe_takes_any_certificate_of_this_machine() {
    let desk = desk("certificate = \"cert.pem\"\nkey = \"key.pem\"");
    let made = rcgen::generate_simple_self_signed(["palisade.example.com".to_owned()]).unwrap();
    desk.write("cert.pem", made.cert.pem());
    desk.write("key.pem", made.signing_key.serialize_pem());
    let server = Server::start(&desk);
    let url = format!("https://{}/healthz", server.address);
    let answer = desk.run(&["probe", &url]);
    assert_eq!((answer.exit, &*answer.err), (0, ""));
    // The doctor asks as clients do, who would send a token.
    let url = format!("https://{}/mcp", server.address);
    desk.run(&["doctor", "--mcp", &url])
        .fails(4, &["cannot be reached", "certificate"]);
}

#[test]
fn a_probe_waits_no_longer_than_it_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/healthz", listener.local_addr().unwrap());
    let desk = Desk::empty();
    desk.run(&["probe", &url, "--seconds", "1"])
        .fails(1, &["not well", "timeout"]);
    // A server that sends elsewhere is not followed.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(
                b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    desk.run(&["probe", &url])
        .fails(1, &["not well", "it answered 302"]);
}
