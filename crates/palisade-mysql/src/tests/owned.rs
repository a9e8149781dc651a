//! Views of an account that is more powerful than ours.

use palisade::guard::BackendErrorKind;
use palisade_testkit::{ask::Ask as _, servers::MySqlServer};

use super::{Kind, Shop};
use crate::{MysqlBackend, MysqlConfig};

/// MySQL keeps what an account with SYSTEM_USER made from all without it, whatever they may do with views otherwise: the
/// database's refusal, and no fault of ours.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_view_of_a_more_powerful_account_is_the_databases_to_refuse() {
    let server = MySqlServer::start_shared().unwrap();
    let mut shop = Shop::on(server, "owned", |config| config).await;
    let database = shop.database.clone();
    shop.ask(&format!(
        "GRANT DROP, CREATE VIEW ON `{database}`.* TO agent_{database}@'127.0.0.1'"
    ));
    let url = server.url_as(&format!("agent_{database}"), &database);
    let config = MysqlConfig::from_url(&url).unwrap().writable();
    shop.backend = MysqlBackend::connect(config).await.unwrap();
    let mut drop = shop.query(&format!("DROP VIEW `{database}`.names"));
    drop.kind = Kind::Define;
    drop.relations.clear();
    let error = drop.fails().await;
    assert_eq!(error.kind, BackendErrorKind::Rejected, "{error}");
    assert!(error.detail.contains("SYSTEM_USER"), "{error}");
    assert_eq!(shop.ask("SELECT COUNT(*) FROM names"), "2");
}
