//! What people outside are told of what waits for them: names and times, never a literal, a parameter or a value.

use std::{sync::Arc, time::Duration};

use palisade::{
    approval::{ApprovalRequest, Approvals, BoundRequest, Confirmation, GivenApproval, Redemption},
    change::{
        ChainedReceipt, ChangeBody, ChangeEvent, ChangeRecord, ChangeState, ChangeStore, Step,
        Stepped,
    },
    firewall::Firewall,
};
use palisade_state::ApprovalStore;
use serde_json::{Value, json};

use crate::webhook::Webhook;

/// That something waits.
#[derive(Debug)]
pub(crate) struct Notice {
    /// Its id.
    pub(crate) id: String,
    /// When it waits no longer, since 1970.
    pub(crate) expires: Duration,
    /// What is sent: JSON.
    pub(crate) body: String,
}

/// A store that tells of what begins to wait in it.
pub(crate) struct TellingStore {
    store: Arc<ApprovalStore>,
    /// By whose names statements are told without their literals.
    firewall: Arc<Firewall>,
    webhook: Arc<Webhook>,
    /// How long requests wait.
    expire_after: Duration,
}

impl TellingStore {
    /// Over `store`, of a gate that decides by `firewall`.
    pub(crate) fn new(
        store: Arc<ApprovalStore>,
        firewall: Arc<Firewall>,
        webhook: Arc<Webhook>,
        expire_after: Duration,
    ) -> Self {
        Self {
            store,
            firewall,
            webhook,
            expire_after,
        }
    }

    /// Tells of what waits as `id` from `created` to `expires`. `about` says what it is.
    fn tell(&self, id: &str, (created, expires): (Duration, Duration), about: About<'_>) {
        let About {
            kind,
            principal,
            connection,
            template,
            level,
            relations,
            statements,
        } = about;
        // Without literals, as records have them.
        let statements: Vec<String> = (statements.iter())
            .map(|sql| self.firewall.fingerprint(sql).normalized)
            .collect();
        let mut actions: Vec<&str> = statements.iter().map(|sql| name_action(sql)).collect();
        actions.sort_unstable();
        actions.dedup();
        let body: Value = json!({
            "version": 1,
            "event": "approval.waiting",
            "kind": kind,
            "id": id,
            "principal": principal,
            "connection": connection,
            "template": template,
            "approval": level,
            "actions": actions,
            "tables": relations,
            "statements": statements,
            "created_ms": millis(created),
            "expires_ms": millis(expires),
            "approve": format!("palisade approve {id}"),
        });
        self.webhook.tell(Notice {
            id: id.to_owned(),
            expires,
            body: body.to_string(),
        });
    }

    fn tell_request(&self, id: &str, request: &ApprovalRequest) {
        let Ok(bound) = serde_json::from_str::<BoundRequest>(&request.bound) else {
            return;
        };
        let about = About {
            kind: "statement",
            principal: &bound.principal,
            connection: bound.connection.as_deref(),
            template: bound.template.as_deref(),
            level: &bound.level,
            relations: &request.relations,
            statements: &[&bound.sql],
        };
        let times = (request.now, request.now.saturating_add(self.expire_after));
        self.tell(id, times, about);
    }

    fn tell_change(&self, record: &ChangeRecord) {
        let ChangeRecord {
            id,
            created,
            expires,
            body,
            state: _,
            decided_by: _,
        } = record;
        let Some(level) = &body.level else { return };
        let statements: Vec<&str> = (body.statements.iter())
            .map(|statement| statement.sql.as_str())
            .collect();
        let about = About {
            kind: "change",
            principal: &body.principal,
            connection: body.connection.as_deref(),
            template: None,
            level,
            relations: &body.tables,
            statements: &statements,
        };
        self.tell(id, (*created, *expires), about);
    }
}

/// What waits.
struct About<'a> {
    kind: &'static str,
    principal: &'a str,
    connection: Option<&'a str>,
    template: Option<&'a str>,
    level: &'a str,
    relations: &'a [String],
    /// As they came.
    statements: &'a [&'a str],
}

/// What a statement does, by its first word.
fn name_action(normalized: &str) -> &'static str {
    const ACTIONS: [&str; 10] = [
        "select", "insert", "replace", "update", "delete", "merge", "create", "alter", "drop",
        "truncate",
    ];
    let first = normalized.split_whitespace().next().unwrap_or_default();
    let known = ACTIONS
        .iter()
        .find(|action| action.eq_ignore_ascii_case(first));
    known.copied().unwrap_or("other")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Approvals for TellingStore {
    fn redeem(&self, request: &ApprovalRequest) -> Result<Redemption, String> {
        let redeemed = self.store.redeem(request)?;
        if let Redemption::Pending(pending) = &redeemed {
            // What waited before expires earlier, and was told of.
            if pending.expires == request.now.saturating_add(self.expire_after) {
                self.tell_request(&pending.id, request);
            }
        }
        Ok(redeemed)
    }

    fn find_given(&self, request: &ApprovalRequest) -> Result<Option<GivenApproval>, String> {
        self.store.find_given(request)
    }

    fn confirm(&self, id: &str, principal: &str, now: Duration) -> Result<Confirmation, String> {
        self.store.confirm(id, principal, now)
    }

    fn waits(&self, id: &str, principal: &str, now: Duration) -> Result<bool, String> {
        self.store.waits(id, principal, now)
    }
}

impl ChangeStore for TellingStore {
    fn read_version(&self) -> Result<u64, String> {
        ChangeStore::read_version(&*self.store)
    }

    fn propose(&self, body: &ChangeBody, now: Duration) -> Result<Option<ChangeRecord>, String> {
        self.store.propose(body, now)
    }

    fn find(&self, id: &str, now: Duration) -> Result<Option<ChangeRecord>, String> {
        ChangeStore::find(&*self.store, id, now)
    }

    fn list(&self, now: Duration) -> Result<Vec<ChangeRecord>, String> {
        ChangeStore::list(&*self.store, now)
    }

    fn step(&self, step: Step<'_>) -> Result<Stepped, String> {
        let event = step.event;
        let stepped = self.store.step(step)?;
        if let (ChangeEvent::Validate, Stepped::Taken(record)) = (event, &stepped)
            && record.state == ChangeState::Validated
        {
            self.tell_change(record);
        }
        Ok(stepped)
    }

    fn hold_rows(&self, change: &str, marks: &[String]) -> Result<(), String> {
        self.store.hold_rows(change, marks)
    }

    fn list_receipts(&self) -> Result<Vec<ChainedReceipt>, String> {
        self.store.list_receipts()
    }

    fn trace_row(&self, mark: &str) -> Result<Vec<u64>, String> {
        self.store.trace_row(mark)
    }

    fn digest(&self, text: &str) -> String {
        self.store.digest(text)
    }

    fn new_id(&self) -> Result<String, String> {
        self.store.new_id()
    }

    fn lacks_operator(&self) -> Option<&'static str> {
        self.store.lacks_operator()
    }
}
