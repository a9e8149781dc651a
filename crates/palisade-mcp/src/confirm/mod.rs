//! A person's approval, asked for by the client's own means: elicitation, or results that require input.
//!
//! It is a convenience: whoever is the client can answer by itself. So it never counts where policy demands an operator, and no
//! argument of a tool gives an approval. A client is asked once for each request; later only the id is told.
//!
//! Where the operator has a page for it and the client can open an address, the person is sent there first. What the client says of
//! that is never an approval: the page decides beside the server, and it is the store that is asked what became of the request.
//!
//! A client that knows tasks is asked within one, and the call goes on by itself once somebody has decided: see `in_task`.

mod in_task;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::{
    approval::{PendingApproval, spell_params},
    code::Code,
    guard::{Guard, Refusal},
    policy::ApprovalLevel,
    rejection::Rejection,
    session::Session,
    value::Params,
};
use palisade_scan::quote_lines;
use rmcp::{
    Peer, RoleServer,
    model::{
        CallToolRequestParams, ClientResult, CustomNotification, ElicitRequest,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
        InputRequiredResult, ProtocolVersion, ServerNotification, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::{approval_page::ApprovalPage, arguments::Call, tasks::TaskHandle};

/// The name of the question in results that require input, and of its answer.
const QUESTION: &str = "approval";

/// What a person says yes to.
const APPROVE: &str = "approve";

/// Characters of a statement with its parameters that a client is asked about. Of a longer one a person might not read the end.
const MAX_SHOWN: usize = 4_000;

/// How many requests are remembered as asked.
const MAX_ASKED: usize = 4_096;

/// The requests that clients were asked about.
#[derive(Debug, Default)]
pub(crate) struct AskedOnce(Mutex<HashSet<String>>);

impl AskedOnce {
    /// Whether it is the first time.
    fn is_first(&self, id: &str) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= MAX_ASKED {
            asked.clear();
        }
        asked.insert(id.to_owned())
    }
}

/// How long a call waits for what a person decides on the operator's page: with the time until the page is open, short of what
/// clients wait for an answer. The request goes on waiting after that.
const PAGE_PATIENCE: Duration = Duration::from_secs(45);

/// How often it is looked whether the person has decided.
const PAGE_LOOK: Duration = Duration::from_millis(250);

/// What a client is told once the person has decided.
const DECIDED: &str = "notifications/elicitation/complete";

/// How a client asks its person.
enum Way {
    /// By the operator's page, which a request of the server tells.
    Page(Arc<ApprovalPage>, Peer<RoleServer>),
    /// By the operator's page, which a result that requires input tells.
    PageInput(Arc<ApprovalPage>),
    /// By a request of the server.
    Elicitation(Peer<RoleServer>),
    /// By a result that requires input, which the client sends with the same call.
    Input,
    /// Not at all.
    None,
}

/// How a client asks, and its answer so far.
pub(crate) struct Asking {
    /// The way to the operator's page, if there is one and the client can open it.
    page: Option<Way>,
    /// The way without it.
    form: Way,
    /// The state that it sent back, and the answer.
    answer: Option<(String, Option<ElicitResult>)>,
    /// What the call can go on as while it waits.
    task: Option<TaskHandle>,
}

impl Asking {
    /// Of the client that sent `request`.
    pub(crate) fn read(
        context: &RequestContext<RoleServer>,
        request: &CallToolRequestParams,
        (page, task): (Option<Arc<ApprovalPage>>, Option<TaskHandle>),
    ) -> Self {
        let declared = context.client_capabilities();
        let elicitation = declared.and_then(|declared| declared.elicitation);
        let has_url = (elicitation.as_ref()).is_some_and(|way| way.url.is_some());
        // Without a mode it is the form.
        let has_form = elicitation.is_some_and(|way| way.form.is_some() || way.url.is_none());
        let version = context.protocol_version();
        let is_stateless = version
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let page = page.filter(|_| has_url).map(|page| match is_stateless {
            true => Way::PageInput(page),
            false => Way::Page(page, context.peer.clone()),
        });
        let form = match (has_form, is_stateless) {
            (false, _) => Way::None,
            (true, true) => Way::Input,
            (true, false) => Way::Elicitation(context.peer.clone()),
        };
        let answered = request.input_responses.as_ref();
        let answer = answered
            .and_then(|answers| answers.get(QUESTION))
            .zip(request.request_state.clone())
            .map(|(answer, state)| {
                let answer: Option<ElicitResult> = serde_json::from_value(answer.clone()).ok();
                (state, answer)
            });
        Self {
            page,
            form,
            answer,
            task,
        }
    }
}

/// What follows a refusal for which a person could be asked.
pub(crate) enum Next {
    /// The person approved: the same call runs once.
    Again,
    /// The client has to ask.
    Input(InputRequiredResult),
    /// It stays refused.
    Refused(Refusal),
}

/// Asks the person at the client about `call`, which was refused with `refusal`.
pub(crate) async fn ask(
    asked: &AskedOnce,
    (guard, connection): (&Arc<Guard>, &str),
    (call, session): (&Call, &Session),
    refusal: Refusal,
    asking: Asking,
) -> Next {
    let Some(pending) = refusal.pending.as_deref().cloned() else {
        return Next::Refused(refusal);
    };
    let Asking {
        page,
        form,
        answer,
        task,
    } = asking;
    if let Some(task) = task
        && answer.is_none()
    {
        let judge = Judge {
            guard: Arc::clone(guard),
            session: session.clone(),
            pending: pending.clone(),
        };
        let described = || describe(call, session, connection);
        let ways = (page.as_ref(), &form);
        if let Some(question) = in_task::choose(&pending, ways, described)
            && task.go_on(in_task::time_kept(&pending))
        {
            return in_task::wait(asked, judge, question, (&task, refusal)).await;
        }
    }
    // No page reaches what waits in memory.
    let way = match (page.filter(|_| pending.is_out_of_band), pending.level) {
        (Some(page), _) => page,
        (None, ApprovalLevel::Required) => form,
        (None, ApprovalLevel::Operator) => return Next::Refused(refusal),
    };
    let judge = Judge {
        guard: Arc::clone(guard),
        session: session.clone(),
        pending: pending.clone(),
    };
    // The state is only compared with what is waited for, so that a client gains nothing by changing it.
    let is_answered = |state: &String| *state == pending.id;
    let way = match (way, &answer) {
        (Way::Input, Some((state, answer))) => {
            return if is_answered(state) {
                judge
                    .take(answer.as_ref().is_some_and(approves), refusal)
                    .await
            } else {
                Next::Refused(refusal)
            };
        }
        (Way::PageInput(_), Some((state, answer))) => {
            return if is_answered(state) {
                judge.wait(answer.as_ref(), None, refusal).await
            } else {
                Next::Refused(refusal)
            };
        }
        (Way::Page(page, peer), _) => {
            if !asked.is_first(&pending.id) {
                return Next::Refused(refusal);
            }
            let question = open_page(&page, &pending.id, describe(call, session, connection));
            let left = time_left(&pending);
            let answer = tokio::time::timeout(left, peer.create_elicitation(question)).await;
            let answer = answer.ok().and_then(Result::ok);
            return judge.wait(answer.as_ref(), Some(peer), refusal).await;
        }
        (Way::PageInput(page), None) => {
            if !asked.is_first(&pending.id) {
                return Next::Refused(refusal);
            }
            let question = open_page(&page, &pending.id, describe(call, session, connection));
            return require_input(question, pending.id);
        }
        (way @ (Way::Elicitation(_) | Way::Input | Way::None), _) => way,
    };
    let question = match describe(call, session, connection) {
        Some(text) if !matches!(way, Way::None) => question(text),
        Some(_) | None if pending.is_out_of_band => return Next::Refused(refusal),
        Some(_) => return Next::Refused(nobody(CANNOT_ASK)),
        None => return Next::Refused(nobody(TOO_LONG)),
    };
    let Some(question) = question else {
        return Next::Refused(refusal);
    };
    if !asked.is_first(&pending.id) {
        return Next::Refused(refusal);
    }
    match way {
        Way::None | Way::Page(..) | Way::PageInput(_) => Next::Refused(refusal),
        Way::Input => require_input(question, pending.id),
        Way::Elicitation(peer) => {
            let left = time_left(&pending);
            // It is sent from here, so that a transport knows to which call it belongs.
            let question = ServerRequest::ElicitRequest(ElicitRequest::new(question));
            let asked = peer.send_request_with_option(question, PeerRequestOptions::no_options());
            let asked = asked.await;
            // It goes on where the call is given up: a person who says yes late has approved, and the call can be sent again.
            let task = tokio::spawn(async move {
                let is_approved = match asked {
                    Ok(asked) => {
                        let answer = tokio::time::timeout(left, asked.await_response()).await;
                        matches!(&answer, Ok(Ok(ClientResult::ElicitResult(answer))) if approves(answer))
                    }
                    Err(_) => false,
                };
                judge.take(is_approved, refusal).await
            });
            match task.await {
                Ok(next) => next,
                Err(_) => Next::Refused(nobody("the question to the client broke off")),
            }
        }
    }
}

/// Has the client ask, and send the answer with the same call.
fn require_input(question: ElicitRequestParams, id: String) -> Next {
    let request = InputRequest::Elicitation(ElicitRequest::new(question));
    let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
    Next::Input(InputRequiredResult::new(Some(requests), Some(id)))
}

/// Sends a person to the operator's page, which shows the whole request.
fn open_page(page: &ApprovalPage, id: &str, described: Option<String>) -> ElicitRequestParams {
    let message = described.unwrap_or_else(|| {
        "A statement that is too long to be shown here waits for your approval.".to_owned()
    });
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: format!(
            "{message} The page at this address shows request {id} and takes your decision."
        ),
        url: page.url(id),
        elicitation_id: id.to_owned(),
    }
}

const CANNOT_ASK: &str = "your client cannot ask a person, and this server keeps no requests that a person could approve apart from it";

const TOO_LONG: &str = "the statement is too long to be shown to a person, and this server keeps no requests that a person could approve apart from it";

fn nobody(why: &str) -> Refusal {
    let message = format!("this needs a person's approval, and was not run: {why}");
    Refusal::new(Rejection::new(Code::ApprovalRequired, message))
}

/// Takes what the person said.
struct Judge {
    guard: Arc<Guard>,
    session: Session,
    pending: PendingApproval,
}

impl Judge {
    async fn take(self, is_approved: bool, refusal: Refusal) -> Next {
        let Self {
            guard,
            session,
            pending,
        } = self;
        // The store and the records are files.
        let told = spawn_blocking(move || match is_approved {
            true => guard.confirm(&pending, &session),
            false => guard.decline(&pending, &session),
        });
        match told.await {
            Ok(Ok(())) if is_approved => Next::Again,
            Ok(Ok(())) => Next::Refused(refusal),
            Ok(Err(refusal)) => Next::Refused(refusal),
            Err(_) => Next::Refused(nobody("the answer of the client could not be kept")),
        }
    }
}

impl Judge {
    /// Waits for what is decided on the operator's page, which `answer` says that the person opens.
    async fn wait(
        self,
        answer: Option<&ElicitResult>,
        peer: Option<Peer<RoleServer>>,
        refusal: Refusal,
    ) -> Next {
        // Whatever else it says counts for nothing.
        let is_opened = answer.is_some_and(|answer| answer.action == ElicitationAction::Accept);
        if !is_opened {
            return self.take(false, refusal).await;
        }
        let until = tokio::time::Instant::now() + PAGE_PATIENCE.min(time_left(&self.pending));
        while tokio::time::Instant::now() < until {
            let (guard, session) = (Arc::clone(&self.guard), self.session.clone());
            let pending = self.pending.clone();
            // The store is a file.
            let waits = spawn_blocking(move || guard.waits(&pending, &session)).await;
            match waits {
                Ok(Ok(true)) => tokio::time::sleep(PAGE_LOOK).await,
                Ok(Ok(false)) => {
                    if let Some(peer) = peer {
                        tell_decided(&peer, &self.pending.id).await;
                    }
                    return Next::Again;
                }
                Ok(Err(refusal)) => return Next::Refused(refusal),
                Err(_) => return Next::Refused(nobody("what was decided could not be read")),
            }
        }
        Next::Refused(refusal)
    }
}

/// Tells a client that its person has decided on the page.
async fn tell_decided(peer: &Peer<RoleServer>, id: &str) {
    let params = serde_json::json!({"elicitationId": id});
    let told = CustomNotification::new(DECIDED, Some(params));
    // A client that is gone needs no word of it.
    let _ = peer
        .send_notification(ServerNotification::CustomNotification(told))
        .await;
}

/// Whether the person said yes, and not merely closed a form.
fn approves(answer: &ElicitResult) -> bool {
    let said = answer.content.as_ref().and_then(|said| said.get(APPROVE));
    answer.action == ElicitationAction::Accept && said == Some(&Value::Bool(true))
}

fn question(message: String) -> Option<ElicitRequestParams> {
    let schema = ElicitationSchema::builder().required_bool(APPROVE).build();
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.ok()?,
    })
}

/// What the person reads: who wants to run what. None where it is too long.
fn describe(call: &Call, session: &Session, connection: &str) -> Option<String> {
    let (what, params) = match call {
        Call::Query(call) => (call.sql.clone(), spell_params(&call.params)),
        Call::Execute(call) => (call.sql.clone(), spell_params(&call.params)),
        Call::RunTemplate(call) => (
            format!("the template {}", call.template),
            spell_params(&Params::Named(call.arguments.clone())),
        ),
        Call::ExplainQuery(call) => (
            format!("the plan of {}", call.sql),
            spell_params(&call.params),
        ),
        Call::List(_, _)
        | Call::ListTemplates(_)
        | Call::PolicyTest(_)
        | Call::DescribeTable(_)
        | Call::Change(_)
        | Call::Past(_) => return None,
    };
    let params = match params.as_str() {
        "" => String::new(),
        params => format!("\nParameters:\n\n{}", quote_lines(params)),
    };
    let text = format!("{}{params}", quote_lines(&what));
    (text.chars().count() <= MAX_SHOWN).then(|| {
        format!(
            "{} asks to run this once on {connection}:\n\n{text}\nNothing runs unless you approve it.",
            session.principal()
        )
    })
}

fn time_left(pending: &PendingApproval) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    pending.expires.saturating_sub(now.unwrap_or_default())
}
