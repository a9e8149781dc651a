//! Reads of the past, of changes and of receipts: each is one record without a value, and counts for budgets.

use std::{collections::BTreeMap, sync::Arc};

use palisade::{
    audit::{AuditRecord, RecordKind, RecordedDecision},
    code::Code,
    guard::{Allowance, Budgets, ChangeCall, ChangeProposal, Moments, PastRows, TracedRow},
    session::Session,
    value::{Params, Value},
};

use crate::history::{Desk, Engine, agent, boss, on_every_engine};

on_every_engine! {
    each_read_of_the_past_is_one_record
    what_is_read_of_the_past_counts
}

fn key() -> BTreeMap<String, Value> {
    BTreeMap::from([("id".to_owned(), Value::Integer(1))])
}

/// The only record since it was last asked.
fn the_record(desk: &Desk, tool: &str) -> AuditRecord {
    let mut records = desk.records.take();
    let text = serde_json::to_string(&records).unwrap();
    for value in ["SECRET", "Ada", "Adele"] {
        assert!(!text.contains(value), "{tool}: {text}");
    }
    assert_eq!(records.len(), 1, "{tool}: {text}");
    let record = records.remove(0);
    assert_eq!(record.tool, Some(tool));
    assert_eq!(record.kind, RecordKind::Call, "{tool}");
    assert!(record.statement.is_empty(), "{tool}");
    record
}

async fn each_read_of_the_past_is_one_record(engine: Engine) {
    let desk = Desk::new(engine).await;
    let (boss, agent) = (boss(), agent());
    desk.records.take();
    desk.snapshot("s0").await;
    let record = the_record(&desk, "create_snapshot");
    assert_eq!(
        (record.decision, record.principal.as_str()),
        (RecordedDecision::Allow, "User::\"boss\"")
    );
    desk.run("UPDATE customers SET name = 'Adele', ssn = 'SECRET-9' WHERE id = 1");
    let table = desk.name_table("customers");
    let moments = |from| Moments { from, to: None };
    let key = key();
    let rows = PastRows {
        table: &table,
        key: Some(&key),
    };

    let call = ChangeCall::new(&agent);
    desk.guard
        .compare_past(&table, moments("s0"), call)
        .await
        .unwrap();
    let record = the_record(&desk, "diff_table");
    // The name alone: the other column is masked.
    assert_eq!(record.rows, 1, "{engine:?} {record:?}");
    let customers = record.relations.as_slice();
    assert!(
        matches!(customers, [one] if one.ends_with("customers")),
        "{record:?}"
    );
    assert!(!record.policies.is_empty(), "{record:?}");
    let is_obliged = |word: &str| record.obligations.iter().any(|one| one.starts_with(word));
    assert!(is_obliged("mask ") && is_obliged("filter "), "{record:?}");

    desk.guard.list_history(rows, None, call).await.unwrap();
    let record = the_record(&desk, "list_history");
    assert_eq!((record.rows, record.relations.len()), (1, 1), "{record:?}");

    let refused = desk.guard.compare_past(&table, moments("nosuch"), call);
    refused.await.unwrap_err();
    let record = the_record(&desk, "diff_table");
    assert_eq!(
        (record.decision, record.code, record.rows),
        (RecordedDecision::Reject, Some(Code::HistoryUnknown), 0)
    );
    let refused = desk
        .guard
        .list_history(PastRows { table: "x", ..rows }, None, call);
    refused.await.unwrap_err();
    assert_eq!(
        the_record(&desk, "list_history").decision,
        RecordedDecision::Reject
    );

    desk.guard.list_snapshots(&agent).unwrap();
    assert_eq!(the_record(&desk, "list_snapshots").rows, 1);
    desk.guard.list_changes(&agent).unwrap();
    assert_eq!(the_record(&desk, "list_changes").rows, 0);
    desk.guard.list_receipts(&agent).unwrap();
    the_record(&desk, "list_receipts");
    desk.guard.get_receipt("nosuch", &agent).unwrap_err();
    let record = the_record(&desk, "list_receipts");
    assert_eq!(record.code, Some(Code::ChangeUnknownReceipt));
    let traced = TracedRow {
        table: "customers",
        key: &key,
    };
    desk.guard.trace_row(traced, &boss).unwrap();
    assert_eq!(the_record(&desk, "trace").relations.len(), 1);

    // A change that sets the table back: its statement is a record, as it is tried, and so is each look at what it does.
    let reverted = desk
        .guard
        .revert_table(&table, ("s0", None), ChangeCall::new(&boss));
    let id = reverted
        .await
        .unwrap_or_else(|why| panic!("{why:?}"))
        .change;
    let proposed = desk.records.take();
    assert!(
        proposed.iter().all(|one| one.dry_run) && !proposed.is_empty(),
        "{proposed:?}"
    );
    for tool in ["validate_change", "inspect_change"] {
        let call = ChangeCall::new(&boss);
        let looked = match tool {
            "validate_change" => desk.guard.validate_change(&id, call).await,
            _ => desk.guard.inspect_change(&id, call).await,
        };
        looked.unwrap_or_else(|why| panic!("{why:?}"));
        let (calls, statements): (Vec<_>, Vec<_>) =
            (desk.records.take().into_iter()).partition(|record| record.kind == RecordKind::Call);
        assert!(statements.iter().all(|one| one.dry_run), "{statements:?}");
        let [call] = calls.as_slice() else {
            panic!("{calls:?}");
        };
        assert_eq!((call.tool, call.rows), (Some(tool), 2), "{engine:?}");
    }
}

async fn what_is_read_of_the_past_counts(engine: Engine) {
    let desk = Desk::new(engine).await;
    desk.snapshot("s0").await;
    desk.run("UPDATE orders SET total = total + 1");
    let table = desk.name_table("orders");
    let Desk {
        guard,
        database,
        records,
    } = desk;
    let (boss, agent) = (boss(), agent());
    let allowance = |rows, cells| Allowance {
        rows,
        cells,
        ..Allowance::default()
    };
    let budgets = Budgets::new(allowance(Some(6), None), allowance(None, Some(60)));
    let desk = Desk {
        guard: guard.with_budgets(Arc::new(budgets)),
        database,
        records,
    };
    let diff = async |session: &Session| {
        let moments = Moments {
            from: "s0",
            to: None,
        };
        let compared = desk
            .guard
            .compare_past(&table, moments, ChangeCall::new(session))
            .await;
        compared.map(drop).map_err(|why| why.rejection.code())
    };
    // Three cells became different, each a row of the answer.
    assert_eq!(diff(&agent).await, Ok(()), "{engine:?}");
    assert_eq!(diff(&agent).await, Ok(()));
    assert_eq!(diff(&agent).await, Err(Code::LimitBudget));
    assert_eq!(
        desk.records.take().last().unwrap().code,
        Some(Code::LimitBudget)
    );
    let refused = desk.ask(&agent, "SELECT 1", None).await;
    assert_eq!(refused.unwrap_err(), Code::LimitBudget);
    let rows = PastRows {
        table: &table,
        key: None,
    };
    let call = ChangeCall::new(&agent);
    for refused in [
        desk.guard.list_history(rows, None, call).await.map(drop),
        desk.guard.list_snapshots(&agent).map(drop),
        desk.guard.list_changes(&agent).map(drop),
        desk.guard.list_receipts(&agent).map(drop),
        desk.guard.get_receipt("x", &agent).map(drop),
        desk.guard.create_snapshot("mine", &agent).await.map(drop),
        desk.guard.delete_snapshot("s0", &agent).map(drop),
    ] {
        let refused = refused.unwrap_err().rejection;
        assert_eq!(refused.code(), Code::LimitBudget, "{refused:?}");
    }
    // What a change would do is shown row by row too. It counts for who looks.
    let call = ChangeCall::new(&boss);
    let sql = "UPDATE orders SET total = total + 1 WHERE id > 0".to_owned();
    let proposed = desk
        .guard
        .propose_change(ChangeProposal::new(&[(sql, Params::None)]), call)
        .await;
    let id = proposed.unwrap_or_else(|why| panic!("{why:?}")).change;
    for _ in 0..2 {
        let validated = desk.guard.validate_change(&id, call).await;
        validated.unwrap_or_else(|why| panic!("{why:?}"));
    }
    let refused = desk.guard.validate_change(&id, call).await.unwrap_err();
    assert_eq!(refused.rejection.code(), Code::LimitBudget);
    let refused = desk.ask(&boss, "SELECT 1", None).await;
    assert_eq!(refused.unwrap_err(), Code::LimitBudget);
}
