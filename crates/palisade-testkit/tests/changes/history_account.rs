//! An account of MariaDB or MySQL with rights on columns, and with what the script of history grants it.

use std::sync::Arc;

use palisade::{
    guard::Backend as _,
    past::{HistoryOrder, LabelStore},
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::{
    any_database::AnyDatabase,
    database::TestDatabase,
    history::{Desk, Engine, POLICIES, agent},
};

pub(crate) const ENABLE: HistoryOrder = HistoryOrder::Enable { account: None };

pub(crate) fn server_of(desk: &Desk) -> &TestDatabase<'static> {
    match &desk.database {
        AnyDatabase::Server(database) => database,
        AnyDatabase::File(_) => panic!("it is a server"),
    }
}

/// A desk whose labels are kept where the test can add some.
pub(crate) async fn with_store(desk: Desk) -> (Desk, Arc<ApprovalStore>) {
    let backend = server_of(&desk).mysql_backend().await;
    over(desk, backend)
}

/// The desk asked by `backend`.
fn over(desk: Desk, backend: MysqlBackend) -> (Desk, Arc<ApprovalStore>) {
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let policies = policy_sources(POLICIES.replace("SCHEMA", server_of(&desk).name()));
    let guard = changing_gate(backend, policies);
    let guard = guard.with_labels(Arc::clone(&store) as Arc<dyn LabelStore>);
    let desk = Desk {
        guard,
        database: desk.database,
        records: desk.records,
    };
    (desk, store)
}

/// A desk that is asked by such an account.
pub(crate) struct AccountDesk {
    pub(crate) desk: Desk,
    account: String,
}

impl AccountDesk {
    /// History of customers is on for the account, and of `others` for no account.
    pub(crate) async fn create(engine: Engine, others: &[&str]) -> Self {
        let desk = Desk::without_history(engine).await;
        let account = format!("past_of_{}", server_of(&desk));
        desk.run(&format!(
            "CREATE USER {account}; GRANT SELECT (id, tenant, name, ssn) ON customers TO {account};"
        ));
        let order = |account: Option<String>| HistoryOrder::Enable { account };
        let script = desk.write_script("customers", &order(Some(account.clone())));
        assert!(script.unwrap_err().contains("name@host"));
        desk.order(&["customers"], &order(Some(format!("{account}@%"))));
        // Other tables take no right away.
        desk.order(others, &ENABLE);
        let backend = connect(&desk, &account).await;
        let (desk, _) = over(desk, backend);
        Self { desk, account }
    }

    /// Customers are read as of now and as of a moment, and of the past no more than of now.
    pub(crate) async fn reads_the_past(&self) {
        self.desk.snapshot("first").await;
        self.desk
            .run("UPDATE customers SET name = 'Adele' WHERE id = 1");
        let sql = "SELECT name, ssn FROM customers WHERE id = 1";
        for (as_of, name) in [(None, "Adele"), (Some("first"), "Ada")] {
            let rows = self.desk.ask(&agent(), sql, as_of).await.unwrap();
            assert_eq!(rows[0]["name"], name);
            assert!(rows[0]["ssn"].is_null());
        }
    }

    /// Past the firewall, the account may not do any of this.
    pub(crate) fn may_not(&self, statements: &[&str]) {
        let database = server_of(&self.desk);
        for sql in statements {
            let answer = database
                .server()
                .query_as(&self.account, database.name(), sql);
            assert!(answer.is_err(), "{sql}");
        }
    }

    /// Without any of these rights moments are refused by the name beside it, and with it they are there. `write` goes before each,
    /// so that there is something to note.
    pub(crate) async fn needs_rights(&self, rights: &[(&str, &str)], write: &str) {
        for (right, named) in rights {
            let account = &self.account;
            self.desk.run(&format!("REVOKE {right} FROM {account}@`%`"));
            self.desk.run(write);
            // Sessions keep rights on all of the server for as long as they last.
            let refused = connect(&self.desk, account).await.take_label().await;
            let refused = refused.unwrap_err();
            assert!(refused.detail.contains(named), "{right}: {refused:?}");
            self.desk.run(&format!("GRANT {right} TO {account}@`%`"));
            let label = connect(&self.desk, account).await.take_label().await;
            assert!(label.is_ok(), "{right}");
        }
    }
}

async fn connect(desk: &Desk, account: &str) -> MysqlBackend {
    let config = MysqlConfig::from_url(&server_of(desk).url_as(account)).unwrap();
    MysqlBackend::connect(config).await.unwrap()
}
