//! A person's approval, waited for within a task: asked for by the client's own means where it has some, and taken from the store
//! whoever gave it.

use std::time::Duration;

use palisade::{approval::PendingApproval, guard::Refusal, policy::ApprovalLevel};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
};
use serde_json::Value;
use tokio::{sync::oneshot, task::spawn_blocking, time::sleep};

use super::{
    AskedOnce, Judge, Next, QUESTION, Way, approves, nobody, open_page, question, time_left,
};
use crate::{
    refusals::{cancelled_call, refusal},
    tasks::{KEPT, TaskHandle},
};

/// How often it is looked whether somebody has decided.
const LOOK: Duration = Duration::from_secs(1);

/// What the client is asked while its task waits.
pub(super) enum Question {
    /// Whether to approve: its answer counts.
    Approve(ElicitRequestParams),
    /// To open the operator's page, which decides.
    Open(ElicitRequestParams),
    /// Nothing: others decide.
    Nothing,
}

/// What is asked about `pending`. None where no person could decide while the task waits.
pub(super) fn choose(
    pending: &PendingApproval,
    (page, form): (Option<&Way>, &Way),
    describe: impl FnOnce() -> Option<String>,
) -> Option<Question> {
    if let Some(Way::PageInput(page)) = page
        && pending.is_out_of_band
    {
        let opened = open_page(page, &pending.id, describe());
        return Some(Question::Open(opened));
    }
    let asked = match (pending.level, form) {
        (ApprovalLevel::Required, Way::Input) => describe().and_then(question),
        (ApprovalLevel::Required, Way::Elicitation(_) | Way::None)
        | (ApprovalLevel::Required, Way::Page(_, _) | Way::PageInput(_))
        | (
            ApprovalLevel::Operator,
            Way::Page(_, _) | Way::PageInput(_) | Way::Elicitation(_) | Way::Input | Way::None,
        ) => None,
    };
    match asked {
        Some(asked) => Some(Question::Approve(asked)),
        None => (pending.is_out_of_band).then_some(Question::Nothing),
    }
}

/// How long a task is kept that waits for `pending`, and runs then.
pub(super) fn time_kept(pending: &PendingApproval) -> Duration {
    time_left(pending).saturating_add(KEPT)
}

/// Waits until somebody has decided about what `judge` is about, or until its time is over.
pub(super) async fn wait(
    asked: &AskedOnce,
    judge: Judge,
    question: Question,
    (task, refused): (&TaskHandle, Refusal),
) -> Next {
    let pending = judge.pending.clone();
    let (request, is_form) = match question {
        Question::Approve(request) => (Some(request), true),
        Question::Open(request) => (Some(request), false),
        Question::Nothing => (None, false),
    };
    // The same request is asked about once, however many tasks wait for it.
    let request = request.filter(|_| asked.is_first(&pending.id));
    if request.is_none() && !pending.is_out_of_band {
        return Next::Refused(refused);
    }
    let how = judge.guard.tell_how_to_approve(pending.level, &pending.id);
    task.say(describe_waiting(&pending, &how));
    let mut told = request.and_then(|request| {
        let request = InputRequest::Elicitation(ElicitRequest::new(request));
        task.ask(QUESTION, request)
    });
    loop {
        tokio::select! {
            answer = read_answer(&mut told) => {
                told = None;
                if is_form {
                    task.say_that_it_runs();
                    return judge.take(answer.as_ref().is_some_and(approves), refused).await;
                }
                // Whatever else it says counts for nothing.
                if !answer.is_some_and(|answer| answer.action == ElicitationAction::Accept) {
                    return judge.take(false, refused).await;
                }
            }
            () = task.cancel().wait() => return Next::Refused(refusal(cancelled_call())),
            () = sleep(LOOK) => {}
        }
        if time_left(&pending).is_zero() {
            return Next::Refused(refused);
        }
        let (guard, session) = (std::sync::Arc::clone(&judge.guard), judge.session.clone());
        let looked_for = pending.clone();
        // The store is a file, or another machine.
        match spawn_blocking(move || guard.waits(&looked_for, &session)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                task.withdraw();
                task.say_that_it_runs();
                return Next::Again;
            }
            Ok(Err(refusal)) => return Next::Refused(refusal),
            Err(_) => return Next::Refused(nobody("what was decided could not be read")),
        }
    }
}

/// The client's answer; never, where nothing is asked.
async fn read_answer(told: &mut Option<oneshot::Receiver<Value>>) -> Option<ElicitResult> {
    let answer = match told {
        Some(told) => told.await,
        None => std::future::pending().await,
    };
    serde_json::from_value(answer.ok()?).ok()
}

/// What the client reads of its task; `how` says how a person approves.
fn describe_waiting(pending: &PendingApproval, how: &str) -> String {
    let id = &pending.id;
    match (pending.level, pending.is_out_of_band) {
        (ApprovalLevel::Operator, _) => format!(
            "The request {id} waits for an operator's approval: {how}. The call goes on by itself then."
        ),
        (ApprovalLevel::Required, true) => format!(
            "The request {id} waits for a person's approval, at this client or apart from it: {how}. The call goes on by itself then."
        ),
        (ApprovalLevel::Required, false) => {
            format!("The request {id} waits for the approval of the person at this client.")
        }
    }
}
