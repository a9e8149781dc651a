//! What is found about accounts.

use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use super::Shop;
use crate::{ConnectError, MysqlBackend, MysqlConfig, WeaknessKind as Kind, examine};

async fn kinds(server: &Server, user: &str, database: &str) -> Vec<Kind> {
    let mut conn = crate::connect(&MysqlConfig::from_url(&server.url_as(user, database)).unwrap())
        .await
        .unwrap();
    let mut kinds: Vec<_> = examine(&mut conn)
        .await
        .unwrap()
        .into_iter()
        .map(|weakness| weakness.kind)
        .collect();
    conn.disconnect().await.unwrap();
    kinds.dedup();
    kinds
}

async fn accounts(server: &'static Server, refuses: &str) {
    let shop = Shop::on(server, "examine", |config| config).await;
    let database = &shop.database;
    let with = |name: &str, grants: &str| {
        let account = format!("{name}_{database}@'127.0.0.1'");
        shop.ask(&format!(
            "CREATE USER {account} WITH MAX_USER_CONNECTIONS 5; {}",
            grants.replace("@", &account)
        ));
        format!("{name}_{database}")
    };
    let good = with(
        "a",
        &format!("GRANT SELECT, SHOW VIEW ON `{database}`.* TO @"),
    );
    assert_eq!(kinds(server, &good, database).await, []);
    let agent = format!("agent_{database}");
    assert_eq!(
        kinds(server, &agent, database).await,
        [Kind::CanExecute, Kind::NoConnectionLimit]
    );
    let writer = with(
        "b",
        &format!(
            "GRANT SELECT, INSERT (id) ON `{database}`.users TO @; GRANT SELECT, CREATE ON `{database}`.secrets TO @ WITH GRANT OPTION"
        ),
    );
    assert_eq!(
        kinds(server, &writer, database).await,
        [Kind::CanWrite, Kind::CanCreate, Kind::CanGrant]
    );
    let reader = with("c", "GRANT SELECT ON *.* TO @");
    assert_eq!(kinds(server, &reader, database).await, [Kind::SystemTables]);
    let file = with("d", "GRANT FILE ON *.* TO @; GRANT SELECT ON *.* TO @");
    assert_eq!(
        kinds(server, &file, database).await,
        [Kind::Powerful, Kind::SystemTables]
    );
    // Those do not start.
    for user in [file.as_str(), server.superuser()] {
        let config = MysqlConfig::from_url(&server.url_as(user, database)).unwrap();
        match MysqlBackend::connect(config.clone()).await {
            Err(ConnectError::Powerful(privileges)) if user == file => {
                assert_eq!(privileges, "FILE");
            }
            Err(ConnectError::Powerful(privileges)) => {
                assert!(privileges.contains(refuses), "{privileges}");
            }
            other => panic!("{user}: {other:?}"),
        }
        MysqlBackend::connect(config.accept_powerful())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn accounts_of_mariadb() {
    accounts(MariaDbServer::start_shared().unwrap(), "ALL PRIVILEGES").await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn accounts_of_mysql_9() {
    accounts(MySqlServer::start_shared().unwrap(), "FILE").await;
}
