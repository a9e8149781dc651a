//! Accounts that may do too much.

use super::Shop;
use crate::{
    ConnectError, PostgresBackend, PostgresConfig, Weakness, WeaknessKind as Kind, examine,
};

async fn find_weaknesses(shop: &Shop, role: &str) -> Vec<Weakness> {
    let client = crate::connect(&shop.server.url_as(role, &shop.database))
        .await
        .unwrap();
    examine(&client).await.unwrap()
}

fn kinds(found: &[Weakness]) -> Vec<Kind> {
    found.iter().map(|weakness| weakness.kind).collect()
}

#[tokio::test]
async fn a_superuser_does_not_start() {
    let shop = Shop::new("superuser").await;
    let url = shop.server.url(&shop.database);
    let config = PostgresConfig::from_url(&url).unwrap();
    let error = PostgresBackend::connect(config.clone()).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Superuser(role) if role == "postgres"),
        "{error}"
    );
    PostgresBackend::connect(config.accept_superuser())
        .await
        .unwrap();
    let found = find_weaknesses(&shop, "postgres").await;
    assert_eq!(found[0].kind, Kind::Superuser);
    // Whoever may become one is one.
    let sly = format!("sly_{}", shop.database);
    shop.ask(&format!(
        "CREATE ROLE {sly} LOGIN NOINHERIT; GRANT postgres TO {sly}"
    ));
    let config = PostgresConfig::from_url(&shop.server.url_as(&sly, &shop.database)).unwrap();
    let error = PostgresBackend::connect(config).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Superuser(role) if role == "postgres"),
        "{error}"
    );
}

#[tokio::test]
async fn each_weakness_is_found_and_its_remedy_mends_it() {
    let shop = Shop::new("weak").await;
    let role = format!("weak_{}", shop.database);
    shop.ask(&format!(
        "CREATE ROLE {role} LOGIN CREATEDB BYPASSRLS; GRANT pg_read_all_stats TO {role};
         GRANT EXECUTE ON FUNCTION pg_ls_dir(text) TO {role};
         GRANT ALL ON SCHEMA app TO {role}; GRANT ALL ON app.users TO {role}; GRANT CREATE ON DATABASE {0} TO {role};
         REVOKE EXECUTE ON FUNCTION app.writes() FROM PUBLIC; GRANT EXECUTE ON FUNCTION app.writes() TO {role};
         CREATE TABLE app.owned (a int); ALTER TABLE app.owned OWNER TO {role}",
        shop.database
    ));
    let mut weak = find_weaknesses(&shop, &role).await;
    assert_eq!(
        kinds(&weak),
        [
            Kind::RoleAttribute,
            Kind::RoleAttribute,
            Kind::PredefinedRole,
            Kind::ServerFunction,
            Kind::Owner,
            Kind::CanWrite,
            Kind::CanCreate,
            Kind::CanCreate,
            Kind::Temporary,
            Kind::SecurityDefiner,
            Kind::NotReadOnly,
            Kind::NoTimeout,
            Kind::NoTimeout,
            Kind::NoConnectionLimit,
        ],
        "{weak:#?}"
    );
    assert!(
        weak[5].description.ends_with("may write to app.users"),
        "{}",
        weak[5].description
    );
    // Each remedy takes away its weakness and nothing else.
    while let Some(worst) = weak.first().cloned() {
        shop.ask(&worst.remedy.replace('…', "postgres"));
        let after = find_weaknesses(&shop, &role).await;
        assert_eq!(after, weak[1..], "{}", worst.remedy);
        weak = after;
    }
    // And it can still read.
    assert_eq!(
        shop.server
            .query_as(&role, &shop.database, "SELECT count(*) FROM app.users")
            .unwrap(),
        "2"
    );
}

#[tokio::test]
async fn the_owner_of_the_database_is_told() {
    let shop = Shop::new("owner").await;
    let role = format!("owner_{}", shop.database);
    shop.ask(&format!(
        "CREATE ROLE {role} LOGIN; ALTER DATABASE {} OWNER TO {role}",
        shop.database
    ));
    let found = find_weaknesses(&shop, &role).await;
    assert!(
        found
            .iter()
            .any(|w| w.kind == Kind::PredefinedRole && w.description.contains("pg_database_owner"))
    );
}
