//! The image, the compose file and the manifests of Kubernetes.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use palisade_testkit::servers::PostgresServer;
use serde_json::{Value, json};

use crate::{
    desk::{Answer, Desk},
    http::{Request, exchange},
    packaging::{check_arguments, check_configuration, path, read, read_yaml, texts},
    probe::probe_until_well,
};

/// The list that follows `instruction` in the Dockerfile's last stage.
fn instruction(text: &str, instruction: &str) -> Vec<String> {
    let (_, stage) = text.rsplit_once("\nFROM ").unwrap();
    let joined = stage.replace("\\\n", " ");
    let line = joined
        .lines()
        .find(|line| line.starts_with(&format!("{instruction} ")))
        .unwrap_or_else(|| panic!("no {instruction}"));
    let list = line.get(line.find('[').unwrap()..).unwrap();
    texts(&serde_json::from_str(list).unwrap())
}

#[test]
fn the_image_holds_the_binary_and_runs_it_as_nobody_special() {
    let text = read("Dockerfile");
    // Nothing but what is copied is in it: no shell that a command could need.
    assert!(text.contains("\nFROM scratch\n"), "{text}");
    assert!(text.contains("\nUSER 65532:65532\n"));
    assert_eq!(instruction(&text, "ENTRYPOINT"), ["/palisade"]);
    check_arguments(&instruction(&text, "CMD"));
    let probe = instruction(&text, "HEALTHCHECK");
    assert_eq!(probe[0], "/palisade");
    check_arguments(&probe[1..]);
    // What it is probed at is where it listens.
    let serve = instruction(&text, "CMD");
    let port = serve.last().unwrap().split(':').nth(1).unwrap();
    assert!(probe.last().unwrap().contains(&format!(":{port}/healthz")));
    assert!(text.contains(&format!("\nEXPOSE {port}\n")));
    let minimum = include_str!("../../../../../Cargo.toml");
    let version = minimum.split("rust-version = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    assert!(text.contains(&format!("FROM rust:{version}-alpine AS build")));
}

/// The build sees every member of the workspace, and no file beside what is listed.
#[test]
fn the_build_has_what_it_needs() {
    let text = read("Dockerfile.dockerignore");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"));
    let manifest = include_str!("../../../../../Cargo.toml");
    let members = manifest.split("members = [").nth(1).unwrap();
    let members = members.split(']').next().unwrap();
    for member in members.split(',') {
        let folder = member.trim().trim_matches('"').trim_end_matches("/*");
        assert!(text.contains(&format!("\n!{folder}\n")), "{folder}");
    }
    for line in lines.filter_map(|line| line.strip_prefix('!')) {
        assert!(path("..").join(line).exists(), "{line}");
    }
}

#[test]
fn the_compose_file_agrees_with_its_configuration() {
    let [compose]: [Value; 1] = read_yaml("compose.yaml").try_into().unwrap();
    let (server, database) = (
        &compose["services"]["palisade"],
        &compose["services"]["database"],
    );
    assert_eq!(server["read_only"], true);
    assert_eq!(server["cap_drop"], json!(["ALL"]));
    assert_eq!(server["security_opt"], json!(["no-new-privileges:true"]));
    assert!(server["mem_limit"].is_string() && server["pids_limit"].is_u64());
    let dockerfile = server["build"]["dockerfile"].as_str().unwrap();
    assert!(path("..").join(dockerfile).exists());
    // Only this machine, and only the server: the database is in a network without a way out.
    assert_eq!(server["ports"], json!(["127.0.0.1:8080:8080"]));
    assert!(database["ports"].is_null());
    assert_eq!(compose["networks"]["back"]["internal"], true);
    assert_eq!(database["networks"], json!(["back"]));
    for volume in texts(&server["volumes"])
        .into_iter()
        .chain(texts(&database["volumes"]))
    {
        let (from, _) = volume.split_once(':').unwrap();
        match from.strip_prefix("./") {
            Some(own) => assert!(path(own).exists(), "{own}"),
            None => assert!(compose["volumes"].get(from).is_some(), "{from}"),
        }
    }
    let desk = check_configuration("compose/palisade.toml", &[]);
    desk.run(&["config", "check"]).expect_exit(0);
    let text = read("compose/palisade.toml");
    let gateway = compose["networks"]["front"]["ipam"]["config"][0]["gateway"].as_str();
    assert!(text.contains(&format!("proxies = [\"{}\"]", gateway.unwrap())));
    for name in server["environment"].as_object().unwrap().keys() {
        assert!(text.contains(&format!("env = [\"{name}\"]")), "{name}");
    }
}

/// The tables and the account of the compose file on a real server, and its configuration over them.
#[test]
fn the_compose_file_s_database_is_served() {
    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("compose").unwrap();
    let reader = format!("reader_{database}");
    for script in ["1-tables.sql", "2-account.sql"] {
        let text = read(&format!("compose/database/{script}"));
        let text = text.replace("palisade_reader", &reader);
        let mut client = server.client(server.superuser(), &database);
        client
            .args(["-v", "ON_ERROR_STOP=1", "--quiet", "-f", "-"])
            .env("READER_PASSWORD", "it's long");
        let answer = Answer::from_command(&mut client, text.as_bytes());
        assert_eq!((answer.exit, &*answer.err), (0, ""), "{script}");
    }
    let place = format!("{}:{}", server.host(), server.port());
    let desk = check_configuration(
        "compose/palisade.toml",
        &[
            ("database:5432/sales", &format!("{place}/{database}")),
            ("database:5432", &place),
            ("palisade_reader", &reader),
            ("/var/lib/palisade/", ""),
        ],
    );
    let run = |arguments: &[&str]| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.args(arguments).env("SALES_PASSWORD", "it's long");
        Answer::from_command(&mut command, b"")
    };
    let doctor = run(&["doctor", "connection:sales", "--config", "palisade.toml"]);
    assert!(
        doctor.out.contains("Nothing is weak."),
        "{}{}",
        doctor.out,
        doctor.err
    );
    let token = run(&[
        "token",
        "create",
        "laptop",
        "--as",
        "Agent::\"analyst\"",
        "--config",
        "palisade.toml",
        "--format",
        "json",
    ]);
    let token = token.expect_exit(0).json()["token"].clone();
    // As the image starts it, at every address; plain text is taken from this machine and the proxy.
    let mut child = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args(["serve", "--config", "palisade.toml", "--http", "0.0.0.0:0"])
        .env("SALES_PASSWORD", "it's long")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let port = lines
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, rest) = line.split_once("serving MCP at http://0.0.0.0:")?;
            Some(rest.split_once("/mcp")?.0.to_owned())
        })
        .unwrap();
    let ready = format!("http://127.0.0.1:{port}/readyz");
    let probe = probe_until_well(|| run(&["probe", &ready]));
    let call = Request::call(
        "query",
        &json!({"sql": "SELECT name, total FROM customers JOIN orders ON customers.id = customer_id ORDER BY total", "format": "json"}),
    );
    let stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let call = call.bearer(token.as_str().unwrap());
    let answer = exchange(stream, &call.write("localhost:8080"));
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!((probe.exit, &*probe.err), (0, ""));
    assert_eq!(answer.status, 200, "{answer:?}");
    // The starter policies mask names.
    assert_eq!(
        answer.json()["result"]["structuredContent"]["rows"][0],
        json!({"name": null, "total": "44.90"}),
        "{answer:?}"
    );
}

/// A policy folder as the kubelet mounts a config map: files are links into a folder that is replaced.
#[cfg(unix)]
fn mount_config_map(desk: &Desk, folder: &str, files: &[&str]) {
    use std::os::unix::fs::symlink;
    for file in files {
        let (_, name) = file.rsplit_once('/').unwrap();
        desk.write(
            &format!("{folder}/..2026_11_01_10_00_00.1234567890/{name}"),
            read(file),
        );
        let link = desk.path(&format!("{folder}/{name}"));
        symlink(format!("..data/{name}"), link).unwrap();
    }
    symlink(
        "..2026_11_01_10_00_00.1234567890",
        desk.path(&format!("{folder}/..data")),
    )
    .unwrap();
}

#[cfg(unix)]
#[test]
fn the_configuration_of_kubernetes_loads_as_it_is_mounted() {
    let desk = check_configuration(
        "kubernetes/palisade.toml",
        &[
            ("/etc/palisade-policies", "policies"),
            ("/etc/palisade-tls/", "tls/"),
            ("/var/lib/palisade/", "state/"),
        ],
    );
    mount_config_map(&desk, "policies", &["kubernetes/policies/main.cedar"]);
    desk.run(&["config", "check"]).expect_exit(0);
    // Nothing else may begin with dots.
    desk.write(
        "policies/..2026.cedar",
        "permit (principal, action, resource);",
    );
    desk.run(&["config", "check"])
        .fails(3, &["`..2026.cedar` has no meaning there"]);
    std::fs::remove_file(desk.path("policies/..2026.cedar")).unwrap();
    // The policies are those of the folder, once.
    desk.write(
        "schema.sql",
        "CREATE TABLE public.orders (id int PRIMARY KEY, total int);",
    );
    let check = |who: &str| {
        desk.run(&[
            "check",
            "--dialect",
            "postgres",
            "--catalog",
            "schema.sql",
            "--policies",
            "policies",
            "--as",
            who,
            "--format",
            "json",
            "SELECT total FROM orders",
        ])
        .json()
    };
    assert_eq!(check("Agent::\"analyst\"")["decision"], "allow");
    assert_eq!(check("Agent::\"other\"")["code"], "name.unknown-relation");
}

/// The name of the port of a probe, and its path.
fn probed(probe: &Value) -> (String, String) {
    let get = &probe["httpGet"];
    assert_eq!(get["scheme"], "HTTPS");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&get["port"]), text(&get["path"]))
}

#[test]
fn the_manifests_of_kubernetes_agree_with_each_other() {
    let objects = read_yaml("kubernetes/palisade.yaml");
    let find = |kind: &str| {
        let mut found = objects.iter().filter(|object| object["kind"] == kind);
        let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
        assert!(found.next().is_none(), "{kind}");
        assert_eq!(object["metadata"]["name"], "palisade", "{kind}");
        object
    };
    let set = find("StatefulSet");
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert!(container["resources"]["limits"]["memory"].is_string());
    let arguments = texts(&container["args"]);
    check_arguments(&arguments);
    let port = arguments.last().unwrap().split(':').nth(1).unwrap();
    assert_eq!(
        container["ports"][0]["containerPort"].to_string(),
        port,
        "it listens where others look for it"
    );
    for (probe, path) in [
        ("startupProbe", "/healthz"),
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
    ] {
        let name = container["ports"][0]["name"].as_str().unwrap().to_owned();
        assert_eq!(probed(&container[probe]), (name, path.to_owned()));
    }
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&find("Service")["spec"]["selector"], labels);
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    let policy = &find("NetworkPolicy")["spec"];
    assert_eq!(&policy["podSelector"]["matchLabels"], labels);
    find("ServiceAccount");
    // Each volume is there, and each path of the configuration is in one.
    let text = read("kubernetes/palisade.toml");
    let mut names: Vec<&Value> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["name"])
        .collect();
    names.push(&set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]);
    let mut mounted = Vec::new();
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert!(names.contains(&&mount["name"]), "{mount}");
        let is_written = mount["name"] == "state";
        assert_eq!(mount["readOnly"] == true, !is_written, "{mount}");
        mounted.push(mount["mountPath"].as_str().unwrap());
    }
    for path in text.split('"').filter(|part| part.starts_with('/')) {
        let is_mounted = mounted.iter().any(|folder| path.starts_with(folder));
        assert!(is_mounted, "{path}");
    }
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(text.contains(&format!("env = [\"{name}\"]")), "{name}");
    }
}

#[test]
fn kustomize_puts_the_manifests_together() {
    let [list]: [Value; 1] = read_yaml("kubernetes/kustomization.yaml")
        .try_into()
        .unwrap();
    for file in texts(&list["resources"]) {
        assert!(path("kubernetes").join(&file).exists(), "{file}");
    }
    for map in list["configMapGenerator"].as_array().unwrap() {
        for file in texts(&map["files"]) {
            assert!(path("kubernetes").join(&file).exists(), "{file}");
        }
    }
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("kustomize").arg(path("kubernetes"));
    let Ok(output) = kubectl.output() else {
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in [
        "kind: StatefulSet",
        "image: registry.example.com/palisade:",
        "main.cedar: |",
        "palisade.toml: |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
