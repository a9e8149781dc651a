//! What the starter policies make of the columns of real schemas, by their names.

use crate::desk::Desk;

/// Columns of well-known schemas and of some in other languages: what an agent sees of each, and the columns of which it sees
/// that. Each is `table.column`, with a type where that is not text.
const COLUMNS: &[(&str, &str)] = &[
    (
        "mask email",
        "wp_users.user_email wp_comments.comment_author_email customer.email res_partner.email \
         auth_user.email users.unconfirmed_email orders.email orders.contact_email Customers.EmailAddress \
         user_entity.email accounts.emailaddress kunden.e_mail kunden.mailadresse clients.courriel \
         clients.adresse_mail clientes.correo clientes.correo_electronico clienti.posta_elettronica",
    ),
    (
        "mask last(4)",
        "address.phone Customers.Phone Customers.Fax Suppliers.HomePhone res_partner.mobile employees.phone_number \
         contacts.phone1 contacts.mobilePhone orders.shipping_phone kunden.telefonnummer kunden.handy \
         kunden.mobilnummer clients.telephone clients.numero_telephone clientes.telefono clientes.movil \
         clienti.cellulare clientes.telemovel kunden.steuernummer clienti.codice_fiscale clientes.dni_numero \
         patients.mrn accounts.iban payments.card_number:INTEGER",
    ),
    (
        "mask date(year)",
        "employees.birth_date:DATE person.birthdate:DATETIME Employees.BirthDate:DATE users.dob:DATE \
         kunden.geburtsdatum:DATE clients.date_naissance:DATE clientes.fecha_nacimiento:DATE \
         clienti.data_nascita:DATE clientes.data_nascimento:DATE",
    ),
    (
        "mask null",
        "wp_users.display_name wp_users.user_login wp_users.user_nicename users.name User.name \
         customer.first_name customer.last_name Customers.FirstName Customers.ContactName auth_user.username \
         person_name.given_name person_name.family_name employees.full_name cards.cardholder_name \
         patients.name kunden.vorname kunden.nachname kunden.name clients.prenom clients.nom \
         clientes.nombre clientes.apellidos clientes.apellido1 clienti.cognome clienti.nome clientes.sobrenome \
         address.address address.address2 address.postal_code Customers.Address Customers.PostalCode \
         res_partner.street res_partner.zip orders.ship_address orders.billing_address_line1 kunden.strasse \
         kunden.hausnummer kunden.plz clients.adresse clients.code_postal clientes.direccion \
         clientes.codigo_postal clienti.indirizzo clientes.endereco clientes.morada \
         employees.birth_year:INTEGER users.birthday:TEXT \
         users.current_sign_in_ip users.last_sign_in_ip wp_comments.comment_author_IP events.ip_address \
         events.session_id events.device_id:INTEGER events.idfa events.mac_address logs.remote_addr \
         customers.latitude:REAL user_visits.lng:REAL drivers.location trips.gps_track devices.last_known_location \
         employees.salary:INTEGER salaries.salary:INTEGER staff.annual_income mitarbeiter.gehalt \
         salaries.salaire empleados.sueldo dipendenti.stipendio \
         visits.diagnosis visits.icd10 patients.blood_type patients.allergies patients.medication \
         patients.religion members.ethnicity members.sexual_orientation members.political_party \
         members.trade_union patienten.diagnose patienten.konfession patients_fr.maladie \
         pacientes.enfermedad pazienti.diagnosi pacientes.raça people.criminal_record",
    ),
    (
        "plain",
        "products.name products.product_name companies.company_name companies.name files.file_name \
         files.filename tables.table_name categories.category_name products.display_name events.event_name \
         hosts.hostname domains.domain_name tags.nom productos.nombre articoli.nome Artist.Name Track.Name \
         city.name country.country_name roles.role_name \
         users.id:INTEGER orders.address_id:INTEGER orders.billing_address_id:INTEGER orders.customer_id:INTEGER \
         users.email_id:INTEGER users.phone_id:INTEGER visits.diagnosis_id:INTEGER users.email_sent_at:DATETIME \
         users.email_verified:BOOLEAN users.emailVerified:DATETIME users.email_confirmed_at users.email_count \
         users.email_template users.phone_verified:BOOLEAN users.phone_verified_at users.phone_type \
         users.is_email users.send_email users.notify_by_email users.address_type users.has_phone \
         users.city users.country users.state users.created_at users.last_login users.gender users.language \
         users.name_count employees.hire_date:DATE employees.department employees.position jobs.min_salary \
         jobs.max_salary jobs.salary_currency employees.commission_pct \
         shops.latitude:REAL cities.longitude:REAL stores.street stores.address stores.postal_code \
         warehouses.zip servers.ip servers.mac_address hosts.server_ip users.vip users.zipped users.trace \
         races.race results.race_id horses.race_date orders.status orders.total orders.description \
         orders.shipping_method shipments.ship_name calls.telephony_provider phones.phone_model \
         users.nominal users.tell users.faxed_at articles.conviction_rate items.wage_index_id \
         contracts.wallet_address logs.memory_address users.username_changed_at products.barcode \
         messages.subject messages.body devices.model devices.os sessions.started_at",
    ),
];

#[test]
fn starter_policies_mask_personal_columns_of_real_schemas() {
    let desk = Desk::empty();
    let mut wrong = Vec::new();
    for (level, columns) in COLUMNS {
        let mut schema = String::new();
        let mut queries = Vec::new();
        for (at, column) in columns.split_whitespace().enumerate() {
            let (name, kind) = column.split_once(':').unwrap_or((column, "TEXT"));
            let (table, column) = name.split_once('.').unwrap();
            let table = table.to_lowercase();
            if schema.contains(&format!("TABLE \"{table}\" (")) {
                let known = format!("TABLE \"{table}\" (");
                schema = schema.replace(&known, &format!("{known}\"{column}\" {kind}, "));
            } else {
                schema.push_str(&format!(
                    "CREATE TABLE \"{table}\" (\"{column}\" {kind});\n"
                ));
            }
            queries.push((at, table, column));
        }
        desk.write("schema.sql", &schema);
        let selects = queries.iter().map(|(at, table, column)| {
            format!("(SELECT count(\"{column}\") FROM \"{table}\") AS c{at}")
        });
        // Few in one statement, which has limits.
        for part in selects.collect::<Vec<_>>().chunks(12) {
            let sql = format!("SELECT {}", part.join(", "));
            let explain = [
                "explain",
                "--catalog",
                "schema.sql",
                "--format",
                "json",
                &sql,
            ];
            let answer = desk.run(&explain).json();
            assert_eq!(answer["decision"], "allow", "{answer}");
            for relation in answer["trace"]["relations"].as_array().unwrap() {
                for column in relation["columns"].as_array().unwrap() {
                    if column["level"] != *level {
                        wrong.push(format!(
                            "{}.{} is {}, not {level}",
                            relation["relation"], column["column"], column["level"]
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Columns by which rows are joined are plain where they are declared as keys.
#[test]
fn starter_policies_leave_keys_for_joins() {
    let desk = Desk::empty();
    desk.write(
        "schema.sql",
        "CREATE TABLE visits (session_id TEXT PRIMARY KEY, device_id INTEGER, ip TEXT);
         CREATE TABLE clicks (id INTEGER PRIMARY KEY, session_id TEXT REFERENCES visits (session_id), page TEXT);
         CREATE TABLE exports (session_id TEXT, ip TEXT);
         CREATE VIEW pages AS SELECT session_id, page FROM clicks;",
    );
    let sql = "SELECT v.session_id, c.session_id, p.session_id, e.session_id, v.device_id, v.ip FROM visits v \
               JOIN clicks c USING (session_id) JOIN pages p ON p.session_id = c.session_id, exports e";
    let explain = [
        "explain",
        "--catalog",
        "schema.sql",
        "--format",
        "json",
        sql,
    ];
    let answer = desk.run(&explain).json();
    let mut told = Vec::new();
    for relation in answer["trace"]["relations"].as_array().unwrap() {
        for column in relation["columns"].as_array().unwrap() {
            let place = format!("{}.{}", relation["relation"], column["column"]).replace('"', "");
            told.push(format!("{place} {}", column["level"].as_str().unwrap()));
        }
    }
    for expected in [
        "main.visits.session_id plain",
        "main.clicks.session_id plain",
        "main.exports.session_id mask null",
        "main.visits.device_id mask null",
        "main.visits.ip mask null",
    ] {
        assert!(
            told.iter().any(|line| line == expected),
            "{expected}: {told:#?}"
        );
    }
    let masked = told
        .iter()
        .any(|line| line.starts_with("main.pages.session_id mask"));
    assert!(!masked, "{told:#?}");
}

/// What becomes of each column is shown, with the pattern that says so.
#[test]
fn starter_policies_are_explained_over_a_database() {
    let desk = Desk::new();
    let explain = |more: &[&str]| {
        let run = ["policy", "print-starter", "--explain"];
        desk.run(&[&run, more].concat()).expect_exit(0)
    };
    let told = explain(&["sqlite:demo.db"]).out;
    for line in [
        "main.customers",
        "  column          an agent sees  class            matched by",
        "  id              plain          -                -",
        "  email           mask email     email            *.*.*email",
        "  phone           mask last(4)   phone            *.*.phone",
        "  name            mask null      person-name      *.customers.name",
        "  national_id     mask last(4)   personal-number  *.*.national_id",
        "  api_key         hidden         secret           *.*.*api_key*",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}\n{told}");
    }
    assert!(
        told.contains(" masked, ") && told.contains(" hidden."),
        "{told}"
    );
    assert!(
        told.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
    let json = explain(&["sqlite:demo.db", "--format", "json"]).json();
    let columns = json["columns"].as_array().unwrap();
    let email = columns
        .iter()
        .find(|found| found["table"] == "main.customers" && found["column"] == "email")
        .unwrap();
    assert_eq!(email["level"], "mask email");
    assert_eq!(email["tags"], serde_json::json!(["email"]));
    assert_eq!(email["chosen_by"], serde_json::json!(["*.*.*email"]));
    assert_eq!(
        email["policies"],
        serde_json::json!(["starter.columns", "starter.email"])
    );
    // A view's column has what it is computed from.
    desk.write(
        "schema.sql",
        "CREATE TABLE a (email TEXT, size INTEGER); CREATE VIEW b AS SELECT email AS contact, size FROM a;",
    );
    let told = explain(&["schema.sql"]).out;
    let line = "  contact  mask email     email  what it is computed from";
    assert!(told.lines().any(|found| found == line), "{told}");
    desk.run(&["policy", "print-starter", "--format", "json"])
        .fails(2, &["--explain"]);
}

/// A type that takes no mask is NULL, a database without personal columns is told of nothing.
#[test]
fn starter_policies_load_over_any_types() {
    let desk = Desk::empty();
    desk.write(
        "schema.sql",
        "CREATE TABLE people (email INTEGER, ssn BLOB, phone BOOLEAN, dob TEXT); CREATE TABLE things (id INTEGER, size REAL);",
    );
    let check = |schema: &str| {
        let told = desk
            .run(&["policy", "check", "--catalog", schema])
            .expect_exit(0);
        assert!(told.out.contains("warnings: 0"), "{}", told.out);
    };
    check("schema.sql");
    desk.write("small.sql", "CREATE TABLE things (id INTEGER, size REAL);");
    check("small.sql");
    for dialect in ["postgres", "mysql"] {
        desk.write(
            "types.sql",
            "CREATE TABLE people (email integer, phone json, ssn numeric(12), dob time, salary decimal(10, 2), first_name char(10));",
        );
        let told = desk
            .run(&[
                "policy",
                "check",
                "--dialect",
                dialect,
                "--catalog",
                "types.sql",
            ])
            .expect_exit(0);
        assert!(told.out.contains("warnings: 0"), "{}", told.out);
    }
}

#[test]
fn the_starter_policies_know_names() {
    let desk = Desk::empty();
    let secret = "password user_password PasswordHash password_salt passwd pwd pwd_hash secret client_secret \
                  secret_key api_key stripe_api_key apiKey private_key token access_token refreshToken \
                  token_hash otp_seed totp_secret credentials cvv pin connection_string jwt";
    let number = "phone ssn customer_ssn ssn_last4 national_id passport passport_number tax_id iban \
                  card_number bank_account_no drivers_license";
    let personal = "date_of_birth dob birth_date religion";
    let plain = "id name token_count max_tokens token_type hash file_hash description secretary \
                 secretary_id is_pin pinned pin_code spin keyboard key primary_key foreign_key monkey \
                 salt cookies classname session_count passenger passport_expiry_days assignment dobermann \
                 company_id taxonomy_id expanded cardinality author_id";
    let names = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut columns = Vec::new();
    for list in [secret, number, personal, plain] {
        columns.extend(names(list).iter().map(|name| format!("\"{name}\" TEXT")));
    }
    desk.write("schema.sql", format!("CREATE TABLE things ({}); CREATE TABLE app_users (id, hash TEXT, salt TEXT); CREATE TABLE vault_secrets (id, value TEXT);", columns.join(", ")));
    let check = |sql: &str| {
        desk.run(&[
            "explain",
            "--catalog",
            "schema.sql",
            "--format",
            "json",
            sql,
        ])
        .json()
    };
    for name in names(secret) {
        let answer = check(&format!("SELECT {name} FROM things"));
        assert_eq!(answer["code"], "name.unknown-column", "{name}");
    }
    for (list, level) in [
        (number, "mask last(4)"),
        (personal, "mask null"),
        (plain, "plain"),
    ] {
        for name in names(list) {
            let answer = check(&format!("SELECT \"{name}\" FROM things"));
            assert_eq!(
                answer["trace"]["relations"][0]["columns"][0]["level"], level,
                "{name}"
            );
        }
    }
    for sql in [
        "SELECT hash FROM app_users",
        "SELECT salt FROM app_users",
        "SELECT value FROM vault_secrets",
    ] {
        assert_eq!(check(sql)["code"], "name.unknown-column", "{sql}");
    }
    for sql in [
        "INSERT INTO things (id) VALUES ('x')",
        "DROP TABLE things",
        "UPDATE things SET id = 1",
    ] {
        assert_eq!(check(sql)["decision"], "reject", "{sql}");
    }
}
