//! The registry of refusal codes: one static table, from which help, documentation and the
//! meta-tests are made.

use serde::{Serialize, Serializer};

/// Where the cause of a refusal is to be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// In the statement, or in what it asks for.
    Statement,
    /// In the database, or in how busy it is.
    Database,
    /// In the policies.
    Configuration,
    /// In the firewall, the machine, or the network.
    Internal,
}

/// When a statement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before it runs.
    Decision,
    /// While it runs, or over its answer.
    Execution,
}

/// Whether a refusal gets an opaque id that the operator's log explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incident {
    /// The agent knows the reason.
    Never,
    /// The reason is the operator's to know.
    Always,
    /// The reason is the operator's to know where there is a detail.
    WithDetail,
}

/// Whether the operator's detail of a refusal goes into the record of the statement, and into the log of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// It does.
    Recorded,
    /// It is an engine's message, which can hold values: only the engine's code and what it is about do.
    Withheld,
}

macro_rules! codes {
    ($($variant:ident $slug:literal retry $retry:literal, next [$($next:ident)*], fault $fault:ident, stage $stage:ident,
        incident $incident:ident, detail $detail:ident, $summary:literal, $remediation:literal;)*) => {
        /// Why a statement or its answer was refused. The slug is stable; texts may be reworded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $summary] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the stages that raise them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name on the wire, `stage.reason`.
            #[must_use]
            pub fn slug(self) -> &'static str {
                match self { $(Self::$variant => $slug,)* }
            }

            /// What happened, in one sentence.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }

            /// What the agent can do next. Static for each code, so that it cannot name what is hidden.
            #[must_use]
            pub fn remediation(self) -> &'static str {
                match self { $(Self::$variant => $remediation,)* }
            }

            /// Whether the same statement may succeed later.
            #[must_use]
            pub fn retryable(self) -> bool {
                match self { $(Self::$variant => $retry,)* }
            }

            /// Tools that make sense next.
            #[must_use]
            pub fn next_valid_actions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$(stringify!($next)),*],)* }
            }

            /// Where the cause is to be looked for.
            #[must_use]
            pub fn fault(self) -> Fault {
                match self { $(Self::$variant => Fault::$fault,)* }
            }

            /// When a statement is refused so.
            #[must_use]
            pub fn stage(self) -> Stage {
                match self { $(Self::$variant => Stage::$stage,)* }
            }

            /// Whether a refusal gets an incident id.
            #[must_use]
            pub fn incident(self) -> Incident {
                match self { $(Self::$variant => Incident::$incident,)* }
            }

            /// Whether the operator's detail of a refusal is recorded and logged.
            #[must_use]
            pub fn detail(self) -> Detail {
                match self { $(Self::$variant => Detail::$detail,)* }
            }
        }
    };
}

codes! {
    RequestInvalid "request.invalid" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The request is not of the form the tool takes.",
        "Send the arguments as the tool's input schema describes them.";
    SyntaxEmpty "syntax.empty" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no statement in the text.",
        "Send exactly one SQL statement.";
    SyntaxCharacter "syntax.character" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The text holds a character that SQL does not need and that can hide meaning.",
        "Remove control, zero-width and direction-changing characters outside of string literals.";
    SyntaxExecutableComment "syntax.executable-comment" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The text holds a comment that some engines execute.",
        "Remove comments that begin with /*! or /*M!.";
    SyntaxInvalid "syntax.invalid" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The text is not valid SQL in this dialect.",
        "Correct what the message names.";
    SyntaxMultiple "syntax.multiple-statements" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The text holds more than one statement.",
        "Send one statement at a time.";
    SyntaxUnsupported "syntax.unsupported" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement uses a construct the firewall does not model, so it cannot vouch for it.",
        "Rewrite the statement without the construct named in the message.";
    SyntaxNotStable "syntax.not-stable" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement does not read back the same after printing, so it cannot be executed safely.",
        "Write the expression in a plainer way, for example with parentheses around nested signs.";
    LimitQuerySize "limit.query-size" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement is longer than the limit.",
        "Send a shorter statement; pass long lists as several statements.";
    LimitDepth "limit.depth" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement is nested or chained deeper than the limit.",
        "Flatten the statement: fewer nested parentheses, UNION arms or chained operators; use IN for long OR chains.";
    LimitRelations "limit.relations" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement references more relations than the limit.",
        "Join fewer tables in one statement.";
    LimitWork "limit.work" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement takes more work to read than the limit.",
        "Shorten lists, name each column once in GROUP BY, ORDER BY and windows, use what a subquery computes less often, or split the statement.";
    LimitCost "limit.cost" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement would cost more than the limit.",
        "Add conditions that narrow the rows and join the tables to each other, and name the columns you need.";
    NameUnknownRelation "name.unknown-relation" retry false, next [list_tables query], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such table or view for you.",
        "List the tables you can use with list_tables.";
    NameUnknownColumn "name.unknown-column" retry false, next [describe_table query], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such column for you.",
        "List the columns of a table with describe_table.";
    NameUnknownType "name.unknown-type" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such type for you.",
        "Cast to a type of the engine's own.";
    NameAmbiguous "name.ambiguous" retry false, next [describe_table query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A name could mean more than one column or table.",
        "Write a column with its table's name or alias before it, a table with its schema.";
    NameSystemRelation "name.system-relation" retry false, next [list_tables query], fault Statement, stage Decision, incident Never, detail Recorded,
        "System relations of the engine cannot be read.",
        "Use list_tables and describe_table instead.";
    NameVariable "name.variable" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "Variables of the session or the server cannot be read.",
        "Write a literal or a parameter in the variable's place.";
    TokenForeign "token.foreign" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A value that is compared with a column of tokens is no token that you were given for it in this session, or one that has expired.",
        "Select the column again and compare it with a token of that answer, whole and unchanged; LIKE and ranges do not work on tokens.";
    FunctionUnknown "function.unknown" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such function for you.",
        "Use the engine's standard functions.";
    FunctionNotAllowed "function.not-allowed" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "No policy permits you to call this function.",
        "Do without the function, or ask the operator for a policy that permits it.";
    TemplateUnknown "template.unknown" retry false, next [list_templates], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such template for you.",
        "Run one of the templates that list_templates shows, by its name.";
    StatementNotAllowed "statement.not-allowed" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "This kind of statement is not permitted.",
        "Send a reading statement (SELECT, VALUES) to query; a change that policy permits goes to execute, where there is one.";
    ParameterMismatch "parameter.mismatch" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "The parameters given are not those the statement uses.",
        "Give exactly one value for each placeholder, all by number or all by name, and each of the type that is asked for.";
    PolicyNoPermit "policy.no-permit" retry false, next [list_tables query], fault Statement, stage Decision, incident Never, detail Recorded,
        "No policy permits this.",
        "Ask the operator for access, or use what list_tables and describe_table show.";
    PolicyForbidden "policy.forbidden" retry false, next [describe_table query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A policy forbids this.",
        "Do without it; the operator has forbidden it on purpose.";
    PolicyEvaluationFailed "policy.evaluation-failed" retry false, next [], fault Configuration, stage Decision, incident Always, detail Recorded,
        "A policy could not be evaluated, so nothing is permitted.",
        "Tell the operator the incident id; the statement may be correct.";
    ApprovalRequired "approval.required" retry true, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A policy permits this only with a person's approval.",
        "Tell the person what you want and why, with the request's id. Once it is approved, send the same call again. No argument of a call gives an approval.";
    ApprovalRejected "approval.rejected" retry false, next [], fault Statement, stage Decision, incident Never, detail Recorded,
        "A person was asked for an approval, and rejected the request.",
        "Do without it, or ask the person what they would approve; the same call is not asked about again until the request expires.";
    ChangeUnknown "change.unknown" retry false, next [list_changes], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such change for you.",
        "List the changes you know of with list_changes.";
    ChangeUnknownReceipt "change.unknown-receipt" retry false, next [list_receipts], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such receipt for you.",
        "List the receipts you know of with list_receipts.";
    ChangeWrongState "change.wrong-state" retry false, next [inspect_change validate_change], fault Statement, stage Decision, incident Never, detail Recorded,
        "The change does not stand where this could be done, so nothing happened.",
        "Look with inspect_change where it stands, and what can follow. What is proposed is looked at with validate_change before it is committed.";
    ChangeOwnApproval "change.own-approval" retry false, next [inspect_change], fault Statement, stage Decision, incident Never, detail Recorded,
        "No principal approves a change of its own.",
        "Tell the person what you want and why, with the change's id: somebody else approves it.";
    ChangeConflict "change.conflict" retry false, next [validate_change inspect_change], fault Statement, stage Execution, incident Never, detail Recorded,
        "The change would do something else by now than what was looked at, so nothing was changed.",
        "Validate the change again, look at what it does now, and have that approved where an approval is needed.";
    ChangeBusy "change.busy" retry true, next [execute commit_change validate_change], fault Database, stage Execution, incident Never, detail Withheld,
        "Others write the same tables and have not come to an end in time, so nothing was changed.",
        "Send the same call again after retry_after_ms milliseconds.";
    ChangeNotPreviewable "change.not-previewable" retry false, next [execute], fault Statement, stage Decision, incident Never, detail Recorded,
        "What the change would do cannot be shown before it is kept.",
        "Write it as INSERT, UPDATE and DELETE of tables, or send it to execute, where policy permits that.";
    ChangeNotCompensable "change.not-compensable" retry false, next [inspect_change propose_change], fault Statement, stage Decision, incident Never, detail Recorded,
        "The change cannot be undone by you, so nothing was changed.",
        "Propose a change that sets the rows right, or ask somebody who may change everything that this one changed.";
    HistoryNotKept "history.not-kept" retry false, next [query describe_table], fault Statement, stage Decision, incident Never, detail Recorded,
        "The statement reads something of which no history is kept.",
        "Read it as it is now, without as_of, or ask as of a snapshot about tables alone that have a history.";
    HistoryUnknown "history.unknown-snapshot" retry false, next [list_snapshots], fault Statement, stage Decision, incident Never, detail Recorded,
        "There is no such snapshot, and none at or before such a time.",
        "List the snapshots with list_snapshots, and name one of them, or a time after the first.";
    HistoryForeign "history.foreign" retry false, next [list_snapshots create_snapshot], fault Database, stage Execution, incident Never, detail Recorded,
        "The snapshot is of another database, or of this one before it was restored.",
        "Name a later snapshot, or make one with create_snapshot; the operator begins histories anew after a restore.";
    HistoryTooEarly "history.too-early" retry false, next [list_snapshots], fault Database, stage Execution, incident Never, detail Recorded,
        "History of what the statement reads begins after the snapshot, or was pruned since.",
        "Name a later snapshot.";
    WriteMaskedRead "write.masked-column" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A statement that changes data may read only columns that are not masked for the session.",
        "Leave masked columns out of the statement: out of WHERE, SET, the values and RETURNING.";
    WriteUnconditional "write.no-condition" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "An UPDATE, DELETE or MERGE without a condition on the table's columns may change any row: constants, a column beside itself and a LIMIT are none.",
        "Name the rows to change, in WHERE or in a MERGE's ON: compare a column of the table with a value or with another table's column.";
    WriteRowNotAdmitted "write.row-not-admitted" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A row would be outside of what policy admits.",
        "Write only rows that you would be permitted to add, as literals or parameters in the columns that policy looks at; narrow the condition to such rows.";
    LimitAffectedRows "limit.affected-rows" retry false, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "The statement would change more rows than the limit, so nothing was changed.",
        "Narrow the condition and change the rows in several statements. Rows that foreign keys delete or change with them count too: delete or change those first.";
    ObligationInapplicable "obligation.inapplicable" retry false, next [query], fault Statement, stage Decision, incident Never, detail Recorded,
        "A mask or filter that policy demands cannot be applied to this statement.",
        "Do as the message says, or do without what it names: read the table itself, and change its rows by INSERT, UPDATE and DELETE.";
    ObligationAggregateOnly "obligation.aggregate-only" retry false, next [query describe_table], fault Statement, stage Decision, incident Never, detail Recorded,
        "Only COUNT, SUM and AVG may see a column of the statement, over groups that are large enough.",
        "Write count(c), sum(c) or avg(c) of the column itself, without OVER. Choose, join, group and order rows by other columns.";
    LimitRows "limit.rows" retry false, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "The answer has more rows than policy permits one answer to have.",
        "Narrow the condition, or ask with LIMIT for as many rows as the message says.";
    LimitTime "limit.time" retry true, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "The statement ran longer than the limit.",
        "Narrow the statement: fewer rows, an indexed condition, no cartesian join. A subquery in the select list runs for each row: write a JOIN with GROUP BY in its place.";
    LimitFailures "limit.failures" retry true, next [query], fault Statement, stage Execution, incident Always, detail Recorded,
        "Too many statements over filtered tables failed in the database.",
        "Leave out what may fail (division, casts, JSON paths) over filtered tables, or wait as long as the message says.";
    LimitBudget "limit.budget" retry true, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "What the principal may take within a minute or a day is used up.",
        "Wait as long as retry_after_ms says. Ask for fewer rows and columns, or for totals.";
    LimitResource "limit.resource" retry false, next [query], fault Statement, stage Execution, incident Never, detail Withheld,
        "The engine's own limit on size or memory stopped the statement.",
        "Ask for less data in one value.";
    LimitBusy "limit.busy" retry true, next [query], fault Database, stage Execution, incident Never, detail Recorded,
        "Too many statements run or wait already.",
        "Send the statement again after retry_after_ms milliseconds; send fewer at a time.";
    LimitCancelled "limit.cancelled" retry true, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "The caller cancelled the statement, and it was ended.",
        "Send the statement again if its answer is wanted after all.";
    OutputBlocked "output.blocked" retry false, next [query], fault Statement, stage Execution, incident Never, detail Recorded,
        "The answer holds text that reads as instructions to a model, and policy blocks such answers.",
        "Select other columns or rows, or ask the operator to look at the data.";
    DatabaseRejected "database.rejected" retry false, next [query], fault Statement, stage Execution, incident WithDetail, detail Withheld,
        "The database refused the statement.",
        "Do as the message says. Where rows are hidden from you, the reason is withheld; check types and values.";
    DatabaseConstraint "database.constraint" retry false, next [query], fault Statement, stage Execution, incident Never, detail Withheld,
        "A constraint of the table refused the change, so nothing was changed.",
        "Check keys, required columns and allowed values; the engine's own message is withheld because it can hold data.";
    DatabaseConflict "database.conflict" retry true, next [query], fault Database, stage Execution, incident Never, detail Withheld,
        "Another transaction stood in the statement's way, and nothing was changed.",
        "Send the statement again: it will be decided over the rows as they are then.";
    DatabaseNotGranted "database.not-granted" retry false, next [list_tables query], fault Configuration, stage Execution, incident Always, detail Recorded,
        "The account that serves you lacks a privilege on something that policy permits.",
        "Tell the operator the incident id: the log has the GRANT that is missing. Use other tables or columns meanwhile.";
    DatabaseUnavailable "database.unavailable" retry true, next [query], fault Database, stage Execution, incident Always, detail Withheld,
        "The database cannot be reached.",
        "Try again later; tell the operator the incident id if it stays so.";
    DatabaseOutcomeUnknown "database.outcome-unknown" retry false, next [query], fault Internal, stage Execution, incident Always, detail Recorded,
        "The connection was lost while the change was being kept, so its outcome is unknown.",
        "Look with a query whether the change is there before you send it again; tell the operator the incident id.";
    DatabaseSchemaChanged "database.schema-changed" retry true, next [list_tables query], fault Database, stage Execution, incident Never, detail Recorded,
        "The database's schema changed after the statement was decided; nothing was read or changed.",
        "Send the statement again: it will be decided over what there is now. Names may have changed.";
    Internal "internal" retry false, next [], fault Internal, stage Decision, incident Always, detail Recorded,
        "Something went wrong on our side.",
        "Tell the operator the incident id.";
}

impl Code {
    /// The code with this slug.
    #[must_use]
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.slug() == slug)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.slug())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.slug())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Code, Fault, Incident};

    #[test]
    fn slugs_are_unique_and_well_formed() {
        let slugs: BTreeSet<_> = Code::ALL.iter().map(|c| c.slug()).collect();
        assert_eq!(slugs.len(), Code::ALL.len());
        for slug in slugs {
            assert!(
                slug.chars()
                    .all(|c| c.is_ascii_lowercase() || c == '.' || c == '-'),
                "{slug}"
            );
        }
    }

    #[test]
    fn every_code_says_what_to_do() {
        for code in Code::ALL {
            assert!(
                code.summary().ends_with('.') && code.remediation().ends_with('.'),
                "{code}"
            );
            assert_eq!(Code::from_slug(code.slug()), Some(*code));
        }
    }

    /// A reason that is not the statement's is explained by the operator's log.
    #[test]
    fn faults_of_ours_are_incidents() {
        for code in Code::ALL {
            match code.fault() {
                Fault::Internal | Fault::Configuration => {
                    assert_eq!(code.incident(), Incident::Always, "{code}");
                }
                Fault::Statement | Fault::Database => {}
            }
        }
    }
}
