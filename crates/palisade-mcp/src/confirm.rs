//! A person's approval, asked for by the client's own means: elicitation, or results that require input.
//!
//! It is a convenience: whoever is the client can answer by itself. So it never counts where policy demands an operator, and no
//! argument of a tool gives an approval. A client is asked once for each request; later only the id is told.

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
use palisade_scan::spell_out;
use rmcp::{
    Peer, RoleServer,
    model::{
        CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationSchema, InputRequest, InputRequiredResult, ProtocolVersion,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::arguments::Call;

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

/// How a client asks its person.
enum Way {
    /// By a request of the server.
    Elicitation(Peer<RoleServer>),
    /// By a result that requires input, which the client sends with the same call.
    Input,
    /// Not at all.
    None,
}

/// How a client asks, and its answer so far.
pub(crate) struct Asking {
    way: Way,
    /// The state that it sent back, and whether the person approves.
    answer: Option<(String, bool)>,
}

impl Asking {
    /// Of the client that sent `request`.
    pub(crate) fn read(
        context: &RequestContext<RoleServer>,
        request: &CallToolRequestParams,
    ) -> Self {
        let declared = context.client_capabilities();
        let elicitation = declared.and_then(|declared| declared.elicitation);
        // Without a mode it is the form.
        let has_form = elicitation.is_some_and(|way| way.form.is_some() || way.url.is_none());
        let version = context.protocol_version();
        let is_stateless = version
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let way = match (has_form, is_stateless) {
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
                (state, answer.is_some_and(|answer| approves(&answer)))
            });
        Self { way, answer }
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
    match pending.level {
        ApprovalLevel::Required => {}
        ApprovalLevel::Operator => return Next::Refused(refusal),
    }
    let Asking { way, answer } = asking;
    let judge = Judge {
        guard: Arc::clone(guard),
        session: session.clone(),
        pending: pending.clone(),
    };
    // The state is only compared with what is waited for, so that a client gains nothing by changing it.
    if let (Way::Input, Some((state, is_approved))) = (&way, &answer) {
        return if *state == pending.id {
            judge.take(*is_approved, refusal).await
        } else {
            Next::Refused(refusal)
        };
    }
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
        Way::None => Next::Refused(refusal),
        Way::Input => {
            let request = InputRequest::Elicitation(ElicitRequest::new(question));
            let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
            Next::Input(InputRequiredResult::new(Some(requests), Some(pending.id)))
        }
        Way::Elicitation(peer) => {
            let left = time_left(&pending);
            // It goes on where the call is given up: a person who says yes late has approved, and the call can be sent again.
            let task = tokio::spawn(async move {
                let answer = tokio::time::timeout(left, peer.create_elicitation(question)).await;
                let is_approved = matches!(&answer, Ok(Ok(answer)) if approves(answer));
                judge.take(is_approved, refusal).await
            });
            match task.await {
                Ok(next) => next,
                Err(_) => Next::Refused(nobody("the question to the client broke off")),
            }
        }
    }
}

const CANNOT_ASK: &str = "your client cannot ask a person, and this server keeps no requests that a person could approve by `palisade approve`";

const TOO_LONG: &str = "the statement is too long to be shown to a person, and this server keeps no requests that a person could approve by `palisade approve`";

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
        Call::ListSchemas(_)
        | Call::ListTables(_)
        | Call::SearchObjects(_)
        | Call::SchemaDump(_)
        | Call::PolicyTest(_)
        | Call::PolicyExplain(_)
        | Call::DescribeTable(_)
        | Call::Change(_)
        | Call::ListTemplates(_) => return None,
    };
    let params = match params.as_str() {
        "" => String::new(),
        params => format!("\n\nParameters: {}", spell_out(params)),
    };
    let text = format!("{}{params}", spell_out(&what));
    (text.chars().count() <= MAX_SHOWN).then(|| {
        format!(
            "{} asks to run this once on {connection}:\n\n{text}\n\nNothing runs unless you approve it.",
            session.principal()
        )
    })
}

fn time_left(pending: &PendingApproval) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    pending.expires.saturating_sub(now.unwrap_or_default())
}
