//! `palisade changes`: changes in steps by hand, from the proposal to the receipt, and what they do row by row.

pub(crate) mod args;
pub(crate) mod print;
mod read_statements;

use std::io::Write as _;

use palisade::{
    guard::{ChangeCall, ChangeProposal, ChangeView, Guard, PreviewedChange, Refusal},
    session::{Session, Transport},
};

use crate::{
    answer::Answer,
    args::Format,
    changes::args::{
        ApproveChangeArguments, ChangeArguments, ChangesCommand, CompensateArguments,
        PlaceArguments, ProposeArguments, RevertArguments,
    },
    database::Access,
    exit::{Exit, Failure},
    human::{self, Paint},
    json,
    query::Gate,
    setup::Setup,
    statements::note_starter,
    stdout,
};

/// Runs the command.
pub(crate) fn run(command: &ChangesCommand) -> Result<Exit, Failure> {
    match command {
        ChangesCommand::List(arguments) => {
            let desk = Desk::open(arguments)?;
            desk.list()
        }
        ChangesCommand::Show(arguments) => show(arguments),
        ChangesCommand::Propose(arguments) => propose(arguments),
        ChangesCommand::Validate(arguments) => validate(arguments),
        ChangesCommand::Approve(arguments) => approve(arguments),
        ChangesCommand::Reject(arguments) => reject(arguments),
        ChangesCommand::Commit(arguments) => commit(arguments),
        ChangesCommand::Compensate(arguments) => compensate(arguments),
        ChangesCommand::Revert(arguments) => revert(arguments),
    }
}

fn show(arguments: &ChangeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let inspected = desk.guard().inspect_change(&arguments.id, desk.call());
    desk.show(desk.block_on(inspected))
}

fn propose(arguments: &ProposeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let list = read_statements::read_statements(arguments, &desk.setup.limits)?;
    let proposal = ChangeProposal {
        statements: &list,
        reason: arguments.reason.as_deref(),
        max_affected_rows: arguments.max_affected_rows,
    };
    let proposed = desk.guard().propose_change(proposal, desk.call());
    desk.tell_proposed(desk.block_on(proposed), arguments.validate)
}

fn validate(arguments: &ChangeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    desk.validate(&arguments.id)
}

fn approve(arguments: &ApproveChangeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let named = (arguments.id.as_str(), arguments.preview.as_str());
    let approved = desk.guard().approve_change(named, desk.call());
    desk.tell(desk.block_on(approved))
}

fn reject(arguments: &ChangeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    desk.tell(desk.guard().reject_change(&arguments.id, &desk.session))
}

fn commit(arguments: &ChangeArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let committed = desk.guard().commit_change(&arguments.id, desk.call());
    desk.tell(desk.block_on(committed))
}

fn compensate(arguments: &CompensateArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let reason = arguments.beside.reason.as_deref();
    let proposed = desk
        .guard()
        .compensate_change(&arguments.id, reason, desk.call());
    desk.tell_proposed(desk.block_on(proposed), arguments.beside.validate)
}

fn revert(arguments: &RevertArguments) -> Result<Exit, Failure> {
    let desk = Desk::open(&arguments.place)?;
    let beside = (arguments.to.as_str(), arguments.beside.reason.as_deref());
    let proposed = (desk.guard()).revert_table(&arguments.table, beside, desk.call());
    desk.tell_proposed(desk.block_on(proposed), arguments.beside.validate)
}

/// A database, and who does something with changes of it.
pub(crate) struct Desk {
    setup: Setup,
    gate: Gate,
    session: Session,
    format: Format,
}

impl Desk {
    pub(crate) fn open(place: &PlaceArguments) -> Result<Self, Failure> {
        let (setup, database) = place.setup()?;
        note_starter(&setup, place.format);
        drop(setup.approvals.require_store()?);
        let limits = setup.limits.clone();
        // To run what is taken back takes the right to write.
        let gate = Gate::open(&setup, &database, Access::Write, limits)?;
        let session = Session::new(setup.principal.clone()).over(Transport::Cli);
        Ok(Self {
            setup,
            gate,
            session,
            format: place.format,
        })
    }

    pub(crate) fn guard(&self) -> &Guard {
        self.gate.guard()
    }

    pub(crate) fn call(&self) -> ChangeCall<'_> {
        self.call_as(&self.session)
    }

    /// A call of somebody else.
    pub(crate) fn call_as<'a>(&'a self, session: &'a Session) -> ChangeCall<'a> {
        self.gate.change_call(session)
    }

    /// Waits for what the guard answers.
    pub(crate) fn block_on<F: Future>(&self, answer: F) -> F::Output {
        self.gate.block_on(answer)
    }

    fn list(&self) -> Result<Exit, Failure> {
        match self.guard().list_changes(&self.session) {
            Ok(all) => stdout::text(&print::list(&all, self.format)).map(|()| Exit::Permitted),
            Err(refusal) => refuse(refusal, self.format),
        }
    }

    fn validate(&self, id: &str) -> Result<Exit, Failure> {
        let validated = self.guard().validate_change(id, self.call());
        self.show(self.block_on(validated))
    }

    /// Tells of a change that was proposed; with `validate`, of what it does.
    fn tell_proposed(
        &self,
        proposed: Result<ChangeView, Refusal>,
        validate: bool,
    ) -> Result<Exit, Failure> {
        match (proposed, validate) {
            (Ok(view), true) => {
                let validated = self.guard().validate_change(&view.change, self.call());
                let validated = self.block_on(validated);
                // It waits all the same, so that its id is told.
                if validated.is_err() {
                    stdout::text(&print::change(&view, self.format))?;
                }
                self.show(validated)
            }
            (proposed, _) => self.tell(proposed),
        }
    }

    fn tell(&self, told: Result<ChangeView, Refusal>) -> Result<Exit, Failure> {
        match told {
            Ok(view) => stdout::text(&print::change(&view, self.format)).map(|()| Exit::Permitted),
            Err(refusal) => refuse(refusal, self.format),
        }
    }

    fn show(&self, told: Result<PreviewedChange, Refusal>) -> Result<Exit, Failure> {
        match told {
            Ok(looked) => stdout::text(&print::previewed_change(&looked, self.format))
                .map(|()| Exit::Permitted),
            Err(refusal) => refuse(refusal, self.format),
        }
    }
}

/// Tells a refusal: to a person on standard error, to a machine as a line of the output. Behind it comes what a change does by now that
/// was to be kept.
pub(crate) fn refuse(mut refusal: Refusal, format: Format) -> Result<Exit, Failure> {
    let fresh = refusal.fresh.take();
    let answer = Answer::of_refusal(refusal);
    match format {
        Format::Json => {
            let line = json::line(&answer).map_err(|error| Failure::Internal(error.to_string()))?;
            stdout::text(&format!("{line}\n"))?;
        }
        Format::Text => {
            // There is no reader if this fails.
            let _ = write!(
                std::io::stderr(),
                "{}",
                human::refusal(&answer, Paint::for_stderr())
            );
        }
    }
    if let Some(looked) = fresh {
        stdout::text(&print::previewed_change(&looked, format))?;
    }
    Ok(answer.exit())
}
