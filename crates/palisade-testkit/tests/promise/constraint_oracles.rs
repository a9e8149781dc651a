//! `policy check` warns of constraints over what is hidden from whoever may write their columns, on the catalogs of each engine.

use palisade::{
    catalog::Catalog,
    firewall::Firewall,
    policy::{PolicyFile, PolicySources},
};
use palisade_sqlite::catalog_from_ddl;

/// `people` has a key of its own, the key of `members` begins with the tenant, and `badges` references both.
const SCHEMA: &str = "
CREATE TABLE people (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, ssn VARCHAR(20) NOT NULL, UNIQUE (ssn));
CREATE TABLE members (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, email VARCHAR(40) NOT NULL, UNIQUE (tenant, email));
CREATE TABLE badges (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, ssn VARCHAR(20), email VARCHAR(40),
    FOREIGN KEY (ssn) REFERENCES people (ssn),
    FOREIGN KEY (tenant, email) REFERENCES members (tenant, email));";

const PRINCIPALS: &str = "entity User; entity Agent = { tenant?: Long };";

const ENTITIES: &str =
    r#"[{"uid": {"type": "Agent", "id": "bot"}, "attrs": {"tenant": 7}, "parents": []}]"#;

const BASE: &str = r#"permit(principal, action in [Action::"select", Action::"read", Action::"insert", Action::"update", Action::"change"], resource);
@id("writes")
permit(principal, action == Action::"write", resource);
"#;

fn catalogs() -> [(Catalog, &'static str); 3] {
    [
        (catalog_from_ddl(SCHEMA, "main").unwrap(), "main"),
        (palisade_ddl::postgres(SCHEMA, "shop").unwrap(), "public"),
        (palisade_ddl::mysql(SCHEMA, "shop").unwrap(), "shop"),
    ]
}

/// The warnings about constraints, where rows of `apart` are seen by tenant.
fn warnings(catalog: &Catalog, schema: &str, apart: &[&str], more: &str) -> Vec<String> {
    let mut text = BASE.to_owned();
    for table in ["people", "members", "badges"] {
        let condition = if apart.contains(&table) {
            " when { principal has tenant && resource has tenant && resource.tenant == principal.tenant }"
        } else {
            ""
        };
        text += &format!(
            "permit(principal, action in [Action::\"see\", Action::\"add\"], resource is row::{schema}::{table}){condition};\n"
        );
    }
    text += &more.replace("SCHEMA", schema);
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "base.cedar".to_owned(),
            text,
        }],
        principals_schema: Some(PRINCIPALS.to_owned()),
        entities: Some(ENTITIES.to_owned()),
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(catalog.clone(), sources)
        .allow_changes()
        .build();
    let firewall = firewall.unwrap_or_else(|error| panic!("{error}"));
    let all = firewall
        .policies()
        .warnings()
        .iter()
        .map(ToString::to_string);
    all.filter(|w| w.contains("hidden from somebody who may write it") || w.contains("writes ids"))
        .collect()
}

#[test]
fn a_unique_key_over_hidden_rows_is_warned_of() {
    for (catalog, schema) in catalogs() {
        let told = warnings(&catalog, schema, &["people"], "");
        let [key, foreign, ids] = told.as_slice() else {
            panic!("{schema}: {told:#?}")
        };
        // With the place of the policy that permits writing.
        assert!(key.starts_with("base.cedar:2:1: "), "{key}");
        let wanted = format!(
            "`{schema}.people (ssn)` is a unique key over rows that are hidden from somebody who may write it: a change fails exactly if one of them is met"
        );
        let of_badges = format!("`{schema}.badges (ssn)` is a foreign key to rows that are hidden");
        assert!(told.iter().any(|w| w.contains(&wanted)), "{told:#?}");
        assert!(told.iter().any(|w| w.contains(&of_badges)), "{told:#?}");
        assert!(
            foreign.contains("help: forbid `Action::\"write\"` on it"),
            "{foreign}"
        );
        // Of ids once, and shortly.
        assert!(
            ids.contains(&format!(
                "writes ids may learn which ids hidden rows have: `{schema}.people (id)`"
            )),
            "{ids}"
        );
    }
}

#[test]
fn a_key_that_begins_with_the_tenant_is_no_oracle() {
    for (catalog, schema) in catalogs() {
        let told = warnings(&catalog, schema, &["members", "badges"], "");
        // Rows of other tenants cannot conflict, nor be referenced; values of `people` are seen by all.
        let but_ids: Vec<&String> = told.iter().filter(|w| !w.contains("writes ids")).collect();
        let [referenced] = but_ids.as_slice() else {
            panic!("{schema}: {told:#?}")
        };
        assert!(
            referenced.contains(&format!(
                "`{schema}.people (ssn)` is a key that is referenced by rows that are hidden"
            )),
            "{referenced}"
        );
        // Where rows of the tenant's own are hidden as well, it is one.
        let hides = "forbid(principal, action == Action::\"see\", resource is row::SCHEMA::members) when { resource has id && resource.id == 5 };";
        let told = warnings(&catalog, schema, &["members", "badges"], hides);
        let wanted = format!("`{schema}.members (tenant, email)` is a unique key over rows");
        assert!(told.iter().any(|w| w.contains(&wanted)), "{told:#?}");
    }
}

#[test]
fn what_is_not_written_or_all_seen_is_no_oracle() {
    for (catalog, schema) in catalogs() {
        assert_eq!(warnings(&catalog, schema, &[], ""), [""; 0]);
        let forbid = |column: &str| {
            format!(
                "forbid(principal, action == Action::\"write\", resource == Column::\"SCHEMA.{column}\");\n"
            )
        };
        let all: String = [
            "people.id",
            "people.ssn",
            "badges.ssn",
            "badges.id",
            "members.id",
        ]
        .map(forbid)
        .concat();
        assert_eq!(warnings(&catalog, schema, &["people"], &all), [""; 0]);
        // A value that is masked, in a key that is written.
        let masked = "@mask(\"null\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"SCHEMA.people.ssn\");";
        let told = warnings(&catalog, schema, &[], masked);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(
            told.iter()
                .any(|w| w.contains("(ssn)` is a unique key over values that are hidden")),
            "{told:#?}"
        );
        assert!(
            told.iter()
                .any(|w| w.contains("(ssn)` is a foreign key to values that are hidden")),
            "{told:#?}"
        );
    }
}
