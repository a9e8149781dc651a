//! `palisade demo changes`: an agent tidies up, a person looks, refuses once, agrees once, and has it taken back.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use palisade::{
    guard::{ChangeProposal, ChangeView, PreviewedChange, Refusal},
    session::{Principal, Session, Transport},
    value::Params,
};

use crate::{
    args::{Format, PolicyArguments, SecretArguments},
    changes::{Desk, args::PlaceArguments, print},
    config::audit::AuditArguments,
    exit::{Exit, Failure},
    human::{self, Paint},
    sqlite, stdout,
};

/// The folder that is made, and files in it.
const FOLDER: &str = "demo-changes";
const DATABASE: &str = "users.db";
const CONFIG_FILE: &str = "palisade.toml";
const POLICY_FOLDER: &str = "policies";
const POLICY_FILE: &str = "main.cedar";
const OWN_FILES: [&str; 8] = [
    DATABASE,
    "users.db-journal",
    CONFIG_FILE,
    "audit.jsonl",
    "audit.jsonl.key",
    "palisade.state.db",
    "palisade.state.db-journal",
    "palisade.state.db.key",
];

const CONFIG: &str = r#"# The demonstration of changes: `palisade demo changes` makes this folder anew.
policies = "policies"
principal = 'Agent::"janitor"'
audit = "audit.jsonl"

[connections.users]
url = "sqlite:users.db"
writable = true
"#;

const POLICIES: &str = r#"// Everybody may read, and write what an agent proposed.
@id("read")
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);

@id("any-row")
permit (principal, action in [Action::"change", Action::"add"], resource);

@id("pure-functions")
permit (principal, action == Action::"call", resource) when { resource.safety == "pure" };

// The agent may tidy up, and somebody else has to agree.
@id("tidy-up")
@approval("required")
permit (
  principal == Agent::"janitor",
  action in [Action::"insert", Action::"update", Action::"delete"],
  resource
);

@id("agree")
permit (principal == User::"ann", action == Action::"approve", resource);
"#;

const SCRIPT: &str = "
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE, item TEXT);
CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image text NOT NULL,
    PRIMARY KEY (change_id, part));
INSERT INTO users VALUES (1, 'Ada Byron', 'ada@example.com'), (2, 'Bob Cole', 'bob@example.com'),
    (3, 'Ada Byron', 'a.byron@example.org'), (4, 'Cyd Dorn', 'cyd@example.com');
INSERT INTO orders VALUES (1, 1, 'lamp'), (2, 3, 'chair'), (3, 4, 'desk');
";

/// The first try: every user of a name that is there twice.
const TOO_WIDE: &str =
    "DELETE FROM users WHERE name IN (SELECT name FROM users GROUP BY name HAVING count(*) > 1)";

/// The second one.
const RIGHT: [&str; 2] = [
    "UPDATE orders SET user_id = 1 WHERE user_id = 3",
    "DELETE FROM users WHERE id = 3",
];

const WIDE_REASON: &str = "users of a name that is there twice";
const RIGHT_REASON: &str = "the orders go to the first, then the second goes";
const UNDO_REASON: &str = "they are two people";

/// Runs the command in `dir`.
pub(super) fn run(dir: &Path) -> Result<Exit, Failure> {
    sqlite::require()?;
    let folder = dir.join(FOLDER);
    prepare(&folder)?;
    let story = Story {
        config: folder.join(CONFIG_FILE),
        desk: open(&folder)?,
        ann: Session::new(Principal::new("User", "ann")).over(Transport::Cli),
        paint: Paint::for_stdout(),
    };
    story.tell()
}

/// The database as the agent has it.
fn open(folder: &Path) -> Result<Desk, Failure> {
    let place = PlaceArguments {
        source: "connection:users".to_owned(),
        secret: SecretArguments::default(),
        policies: PolicyArguments {
            principal: Some(Principal::new("Agent", "janitor")),
            policies: None,
            config: Some(folder.join(CONFIG_FILE)),
        },
        audit: AuditArguments::default(),
        format: Format::Text,
    };
    Desk::open(&place)
}

struct Story {
    config: PathBuf,
    desk: Desk,
    ann: Session,
    paint: Paint,
}

impl Story {
    fn tell(&self) -> Result<Exit, Failure> {
        let about = format!(
            "Users and their orders in `{}`. An agent, Agent::\"janitor\", is to remove users that are there twice. \
             What it changes has to be approved by User::\"ann\". These are its steps and hers, each with the command that does the \
             same by hand; agents have tools of these names.",
            self.config.with_file_name(DATABASE).display()
        );
        stdout::text(&format!(
            "{}\n\n{}",
            self.paint
                .strong("Palisade: changes that are looked at before they are kept"),
            human::wrap(&about, 0, 0)
        ))?;

        let wide = self.propose(&[TOO_WIDE], WIDE_REASON)?;
        self.step(
            "the agent proposes a change",
            "It was run and taken back: each cell that would be different is shown, and so is what foreign keys would do. Nothing is \
             kept.",
            &[format!(
                "propose connection:users {TOO_WIDE:?} --reason {WIDE_REASON:?} --validate"
            )],
            &print::previewed_change(&wide, Format::Text),
        )?;
        let id = &wide.view.change;
        let rejected = check(self.desk.guard().reject_change(id, &self.ann))?;
        self.step(
            "Ann rejects it",
            "Both Adas would be gone, and the orders of both.",
            &[format!("reject connection:users {id} --as 'User::\"ann\"'")],
            &print::change(&rejected, Format::Text),
        )?;

        let right = self.propose(&RIGHT, RIGHT_REASON)?;
        self.step(
            "the agent tries again",
            "Two statements are one change: both are kept, or none.",
            &[format!(
                "propose connection:users {:?} {:?} --reason {RIGHT_REASON:?} --validate",
                RIGHT[0], RIGHT[1]
            )],
            &print::previewed_change(&right, Format::Text),
        )?;
        let kept = self.agree(&right)?;
        self.step(
            "Ann approves what she saw, and the agent keeps it",
            "It is compared with what was approved: had somebody changed these rows meanwhile, nothing would have been kept. \
             A receipt says who did what, and who agreed.",
            &commands_of_agreement(&right),
            &print::change(&kept, Format::Text),
        )?;

        let undo =
            self.desk
                .guard()
                .compensate_change(&kept.change, Some(UNDO_REASON), self.desk.call());
        let undo = check(self.desk.block_on(undo))?;
        let undo = self.validate(&undo.change)?;
        self.step(
            "the second Ada was somebody else",
            "What undoes a change is a change as any other. It gives back exactly the columns that were written.",
            &[format!(
                "compensate connection:users {} --reason {UNDO_REASON:?} --validate",
                kept.change
            )],
            &print::previewed_change(&undo, Format::Text),
        )?;
        let back = self.agree(&undo)?;
        self.step(
            "Ann approves that too",
            "All is as it was, and the receipts tell of both changes.",
            &commands_of_agreement(&undo),
            &print::change(&back, Format::Text),
        )?;
        stdout::text(&format!(
            "\n{}\n\n  palisade changes list connection:users --config {config}\n  palisade ledger list connection:users --config {config}\n",
            self.paint.strong("Look around"),
            config = self.config.display()
        ))?;
        Ok(Exit::Permitted)
    }

    fn propose(&self, statements: &[&str], reason: &str) -> Result<PreviewedChange, Failure> {
        let statements: Vec<_> = (statements.iter())
            .map(|sql| ((*sql).to_owned(), Params::None))
            .collect();
        let proposed = self.desk.guard().propose_change(
            ChangeProposal {
                reason: Some(reason),
                ..ChangeProposal::new(&statements)
            },
            self.desk.call(),
        );
        let proposed = check(self.desk.block_on(proposed))?;
        self.validate(&proposed.change)
    }

    fn validate(&self, id: &str) -> Result<PreviewedChange, Failure> {
        let validated = self.desk.guard().validate_change(id, self.desk.call());
        check(self.desk.block_on(validated))
    }

    /// Ann approves what is shown, and the agent keeps it.
    fn agree(&self, looked: &PreviewedChange) -> Result<ChangeView, Failure> {
        let id = &looked.view.change;
        let preview = looked.view.preview.as_deref().unwrap_or_default();
        let approved = self
            .desk
            .guard()
            .approve_change((id, preview), self.desk.call_as(&self.ann));
        check(self.desk.block_on(approved))?;
        let committed = self.desk.guard().commit_change(id, self.desk.call());
        check(self.desk.block_on(committed))
    }

    fn step(
        &self,
        title: &str,
        about: &str,
        commands: &[String],
        told: &str,
    ) -> Result<(), Failure> {
        let head = format!("── {title} ");
        let rule = "─".repeat(human::WIDTH.saturating_sub(head.chars().count()));
        let mut out = format!("\n{}\n", self.paint.strong(&format!("{head}{rule}")));
        out.push_str(&human::wrap(about, 0, 0));
        out.push('\n');
        for command in commands {
            let line = format!(
                "$ palisade changes {command} --config {}",
                self.config.display()
            );
            let _ = writeln!(out, "{}", self.paint.faint(&line));
        }
        out.push('\n');
        out.push_str(told);
        stdout::text(&out)
    }
}

/// How Ann approves what is shown, and the agent keeps it, by hand.
fn commands_of_agreement(looked: &PreviewedChange) -> [String; 2] {
    let id = &looked.view.change;
    let preview = looked.view.preview.as_deref().unwrap_or_default();
    [
        format!("approve connection:users {id} --preview {preview} --as 'User::\"ann\"'"),
        format!("commit connection:users {id}"),
    ]
}

/// The demonstration's own steps are permitted.
fn check<T>(answer: Result<T, Refusal>) -> Result<T, Failure> {
    answer.map_err(|refusal| {
        Failure::Internal(format!(
            "the demonstration was refused: {}",
            refusal.rejection.message()
        ))
    })
}

/// Makes the folder anew. What is there already is replaced only if the demonstration made it.
fn prepare(folder: &Path) -> Result<(), Failure> {
    let fault = |path: &Path, why: &str| {
        Failure::Usage(format!(
            "cannot make `{}`: {why}\n  help: `palisade demo changes --dir DIR` takes another folder",
            path.display()
        ))
    };
    let io = |error: std::io::Error| fault(folder, &error.to_string());
    let policies = folder.join(POLICY_FOLDER);
    if fs::symlink_metadata(folder).is_ok() {
        if !is_own(folder) {
            return Err(fault(
                folder,
                "there is something by this name that the demonstration did not make, or that was edited",
            ));
        }
        for name in OWN_FILES {
            match fs::remove_file(folder.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    fs::create_dir_all(&policies).map_err(io)?;
    fs::write(policies.join(POLICY_FILE), POLICIES).map_err(io)?;
    fs::write(folder.join(CONFIG_FILE), CONFIG).map_err(io)?;
    let database = folder.join(DATABASE);
    sqlite::create(&database, SCRIPT).map_err(|error| fault(&database, &error))
}

/// Whether the folder holds our files alone, and those that are written as they were.
fn is_own(folder: &Path) -> bool {
    let is_as_written =
        |path: PathBuf, text: &str| fs::read_to_string(path).is_ok_and(|found| found == text);
    let names = |folder: &Path| -> Option<Vec<String>> {
        let entries = fs::read_dir(folder).ok()?;
        let names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
        names.collect()
    };
    let known = |name: &String| OWN_FILES.contains(&name.as_str()) || name == POLICY_FOLDER;
    let policies = folder.join(POLICY_FOLDER);
    names(folder).is_some_and(|names| names.iter().all(known))
        && names(&policies).is_some_and(|names| names == [POLICY_FILE])
        && is_as_written(folder.join(CONFIG_FILE), CONFIG)
        && is_as_written(policies.join(POLICY_FILE), POLICIES)
}
