//! A desk beside a database of a real server.

use std::fs;

use palisade_testkit::servers::{MariaDbServer, PostgresServer, Server};

use crate::desk::{Answer, Desk};

const SCHEMA: &str = "
    CREATE TABLE customers (id int PRIMARY KEY, tenant_id int NOT NULL, name text NOT NULL, email text, national_id text);
    CREATE TABLE credentials (id int PRIMARY KEY, customer_id int REFERENCES customers, api_key text);
    CREATE TABLE tickets (id int PRIMARY KEY, tenant_id int NOT NULL, subject text, note text);
    CREATE VIEW directory AS SELECT id, name, email FROM customers;
    CREATE SCHEMA hr;
    CREATE TABLE hr.salaries (id int PRIMARY KEY, amount numeric(10, 2));
    INSERT INTO customers VALUES (1, 1, 'Ada Brandt', 'ada@acme.example', '900-11-4821'),
                                 (2, 2, 'Elif Yilmaz', 'elif@globex.example', '900-22-7734');
    INSERT INTO credentials VALUES (1, 1, 'key-geheim');
    INSERT INTO tickets VALUES (1, 1, 'printer', 'n1'), (2, 1, 'screen', 'n2'), (3, 2, 'desk', 'n3');
    INSERT INTO hr.salaries VALUES (1, 4200.00);
";

const MYSQL_SCHEMA: &str = "
    CREATE TABLE customers (id int PRIMARY KEY, tenant_id int NOT NULL, name varchar(40) NOT NULL, email varchar(80), national_id varchar(20));
    CREATE TABLE credentials (id int PRIMARY KEY, customer_id int REFERENCES customers (id), api_key varchar(40));
    CREATE TABLE tickets (id int PRIMARY KEY, tenant_id int NOT NULL, subject varchar(40), note varchar(40));
    CREATE VIEW directory AS SELECT id, name, email FROM customers;
    CREATE TABLE `{hr}`.salaries (id int PRIMARY KEY, amount decimal(10, 2));
    INSERT INTO customers VALUES (1, 1, 'Ada Brandt', 'ada@acme.example', '900-11-4821'),
                                 (2, 2, 'Elif Yilmaz', 'elif@globex.example', '900-22-7734');
    INSERT INTO credentials VALUES (1, 1, 'key-geheim');
    INSERT INTO tickets VALUES (1, 1, 'printer', 'n1'), (2, 1, 'screen', 'n2'), (3, 2, 'desk', 'n3');
    INSERT INTO `{hr}`.salaries VALUES (1, 4200.00);
";

const BASE: &str = r#"
permit (principal in Role::"support", action in [Action::"select", Action::"discover"], resource in Schema::"public");
permit (principal in Role::"support", action in Action::"read", resource in Schema::"public");
permit (principal, action == Action::"call", resource) when { ["pure", "volatile"].contains(resource.safety) };
permit (principal, action == Action::"see", resource is row::public::directory);
permit (principal, action == Action::"see", resource is row::public::customers)
when { principal has tenant && resource.tenant_id == principal.tenant };
permit (principal, action == Action::"see", resource is row::public::tickets)
when { principal has tenant && resource.tenant_id == principal.tenant };
@mask("last(4)")
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.national_id");
@mask("null")
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.email");
forbid (principal, action in Action::"read", resource == Column::"public.tickets.note");
forbid (principal, action == Action::"select", resource == Table::"public.credentials");
"#;

const PRINCIPALS: &str =
    "entity Role in [Role];\nentity Agent in [Role] { tenant?: Long };\nentity User in [Role];\n";

const ENTITIES: &str = r#"[
  { "uid": { "type": "Role", "id": "support" }, "attrs": {}, "parents": [] },
  { "uid": { "type": "Agent", "id": "bot" }, "attrs": { "tenant": 1 }, "parents": [{ "type": "Role", "id": "support" }] }
]"#;

/// Who asks: an agent of the first tenant.
pub(crate) const BOT: &str = "Agent::\"bot\"";

/// A desk with policies in `p`, and a database with an account that may read all of it.
pub(crate) struct Shop {
    pub(crate) desk: Desk,
    pub(crate) server: &'static Server,
    pub(crate) database: String,
    /// The account.
    pub(crate) reader: String,
}

impl Shop {
    pub(crate) fn new(label: &str) -> Self {
        let server: &'static Server = PostgresServer::start_shared().unwrap();
        let database = server.fresh_database(label).unwrap();
        let reader = format!("reader_{database}");
        let script = format!(
            "{SCHEMA} CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA hr TO {reader};
             GRANT SELECT ON ALL TABLES IN SCHEMA public, hr TO {reader};"
        );
        server.load(&database, &script).unwrap().clean().unwrap();
        Self::over(server, database, reader, BASE)
    }

    /// As [`new`](Self::new), of MariaDB; the schema `public` is the database, and `hr` another.
    pub(crate) fn mariadb(label: &str) -> Self {
        Self::mysql(MariaDbServer::start_shared().unwrap(), label)
    }

    /// As [`mariadb`](Self::mariadb), of any server of its kin.
    pub(crate) fn mysql(server: &'static Server, label: &str) -> Self {
        let database = server.fresh_database(label).unwrap();
        let hr = server.fresh_database("hr").unwrap();
        let reader = format!("reader_{database}");
        let script = format!(
            "{} CREATE USER {reader}@'127.0.0.1' WITH MAX_USER_CONNECTIONS 20;
             GRANT SELECT, SHOW VIEW ON `{database}`.* TO {reader}@'127.0.0.1';
             GRANT SELECT ON `{hr}`.* TO {reader}@'127.0.0.1';",
            MYSQL_SCHEMA.replace("{hr}", &hr)
        );
        server.load(&database, &script).unwrap().clean().unwrap();
        let base = BASE
            .replace("::public::", &format!("::{database}::"))
            .replace("\"public", &format!("\"{database}"));
        Self::over(server, database, reader, &base)
    }

    fn over(server: &'static Server, database: String, reader: String, base: &str) -> Self {
        let desk = Desk::empty();
        desk.write("p/base.cedar", base);
        desk.write("p/principals.cedarschema", PRINCIPALS);
        desk.write("p/entities.json", ENTITIES);
        Self {
            desk,
            server,
            database,
            reader,
        }
    }

    /// The database as the account that may only read.
    /// Runs `script` as the superuser.
    pub(crate) fn load(&self, script: &str) {
        let loaded = self.server.load(&self.database, script);
        loaded.unwrap().clean().unwrap();
    }

    /// Writes a policy folder for the principals of `p`.
    pub(crate) fn write_policies(&self, folder: &str, policies: &str) {
        self.desk.write(&format!("{folder}/base.cedar"), policies);
        for file in ["principals.cedarschema", "entities.json"] {
            let text = std::fs::read_to_string(self.desk.path(&format!("p/{file}"))).unwrap();
            self.desk.write(&format!("{folder}/{file}"), &text);
        }
    }

    /// The answer to `sql` under the policies, by way of the account `user`.
    pub(crate) fn query_as(&self, user: &str, sql: &str) -> Answer {
        self.run(&self.url_as(user), "query", &[], sql)
    }

    /// The SQL that adds what the policies need to `role`.
    pub(crate) fn grants(&self, superuser: &str, role: &str) -> String {
        let url = self.url_as(superuser);
        let asked = [
            "setup-sql",
            &url,
            "--role",
            role,
            "--policies",
            "p",
            "--update",
        ];
        self.desk.run(&asked).expect_exit(0).out
    }

    pub(crate) fn url(&self) -> String {
        self.url_as(&self.reader)
    }

    pub(crate) fn url_as(&self, user: &str) -> String {
        self.server.url_as(user, &self.database)
    }

    /// Runs as the superuser.
    pub(crate) fn ask(&self, sql: &str) -> String {
        self.server.query(&self.database, sql).unwrap()
    }

    /// `palisade COMMAND URL --policies p --as BOT --format json SQL`
    pub(crate) fn json(&self, command: &str, sql: &str) -> serde_json::Value {
        self.answer(command, sql).json()
    }

    /// The types of the columns of the answer to `sql`.
    pub(crate) fn types(&self, sql: &str) -> Vec<String> {
        let answer = self.json("query", sql);
        let columns = answer["columns"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        let types = columns
            .iter()
            .map(|column| column["type"].as_str().unwrap().to_owned());
        types.collect()
    }

    pub(crate) fn answer(&self, command: &str, sql: &str) -> Answer {
        self.answer_with(command, &[], sql)
    }

    /// As [`answer`](Self::answer), with more options.
    pub(crate) fn answer_with(&self, command: &str, options: &[&str], sql: &str) -> Answer {
        self.run(&self.url(), command, options, sql)
    }

    fn run(&self, url: &str, command: &str, options: &[&str], sql: &str) -> Answer {
        let mut arguments = vec![command, url, "--policies", "p", "--as", BOT];
        arguments.extend(["--format", "json"]);
        arguments.extend(options);
        arguments.push(sql);
        self.desk.run(&arguments)
    }

    /// A password file that only its owner may read.
    pub(crate) fn secret(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.desk.write(name, text);
        fs::set_permissions(self.desk.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// What `command` says of `sql` over the database at `url`, under the policies of `folder`.
pub(crate) fn ask(
    desk: &Desk,
    command: &str,
    url: &str,
    folder: &str,
    sql: &str,
) -> serde_json::Value {
    let options = ["--policies", folder, "--as", BOT, "--format", "json"];
    desk.run(&[&[command, url], &options[..], &[sql]].concat())
        .json()
}
