//! Permits that give nothing alone: a statement needs several, and one of them is nowhere.

use cedar_policy::Effect;

use crate::policy::{
    cedar::{by_action::covers, schema::PolicyAction},
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Actions that serve nothing without others.
struct Need {
    /// Where one of them is permitted
    of: Vec<PolicyAction>,
    /// one of these has to be permitted too, whoever asks.
    any: Vec<PolicyAction>,
    /// What is not possible otherwise.
    lost: &'static str,
    /// A policy that permits it.
    example: &'static str,
}

fn needs() -> [Need; 7] {
    let reads: Vec<PolicyAction> = PolicyAction::filter(PolicyAction::is_read_of_columns).collect();
    [
        Need {
            of: vec![PolicyAction::Select],
            any: reads.clone(),
            lost: "no policy permits reading a column: rows can be counted and no more",
            example: "permit (principal, action in Action::\"read\", resource);",
        },
        Need {
            of: vec![PolicyAction::Select],
            any: vec![PolicyAction::Call],
            lost: "no policy permits `call` of a function: even `count(*)` and `coalesce` are refused",
            example: "permit (principal, action == Action::\"call\", resource) when { [\"pure\", \"volatile\"].contains(resource.safety) };",
        },
        Need {
            of: reads,
            any: vec![PolicyAction::Select],
            lost: "no policy permits `select` of a table: no column is read",
            example: "permit (principal, action == Action::\"select\", resource);",
        },
        Need {
            of: vec![PolicyAction::Update, PolicyAction::Insert],
            any: vec![PolicyAction::Write],
            lost: "no policy permits `write` of a column: nothing can be assigned",
            example: "permit (principal, action == Action::\"write\", resource == Column::\"…\");",
        },
        Need {
            of: vec![PolicyAction::Update, PolicyAction::Delete],
            any: vec![PolicyAction::Change],
            lost: "no policy permits `change` of a row: no row is reached",
            example: "permit (principal, action == Action::\"change\", resource is row::…);",
        },
        Need {
            of: vec![PolicyAction::Update, PolicyAction::Insert],
            any: vec![PolicyAction::Add],
            lost: "no policy permits `add` of a row: no row may be as it would become",
            example: "permit (principal, action == Action::\"add\", resource is row::…);",
        },
        Need {
            of: vec![PolicyAction::Write],
            any: vec![PolicyAction::Update, PolicyAction::Insert],
            lost: "no policy permits `update` or `insert` of a table: no column is assigned",
            example: "permit (principal, action == Action::\"update\", resource == Table::\"…\");",
        },
    ]
}

/// Warns of permits that need others beside them, where no policy permits these to anybody.
pub(in crate::policy) fn check(located: &[Located<'_>], warnings: &mut Vec<PolicyProblem>) {
    let permits = |actions: &[PolicyAction]| {
        located.iter().find(|located| {
            let policy = &located.policy;
            policy.effect() == Effect::Permit
                && actions.iter().any(|action| covers(policy, *action))
        })
    };
    for need in needs() {
        let Some(found) = permits(&need.of) else {
            continue;
        };
        if permits(&need.any).is_some() {
            continue;
        }
        let of = need
            .of
            .iter()
            .filter(|action| covers(&found.policy, **action));
        let of: Vec<String> = of.map(|action| format!("`{}`", action.name())).collect();
        let message = format!("this permits {}, and {}", of.join(" and "), need.lost);
        let help = format!("write for example `{}`", need.example);
        warnings.push(found.origin.problem(message).with_help(Some(help)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use crate::policy::tests::fixture::lint;

    const READ: &str = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);
        permit(principal, action == Action::\"call\", resource);";

    #[test]
    fn permits_that_need_others_are_warned_of() {
        let permit = |actions: &str| format!("permit(principal, action in [{actions}], resource);");
        let call = "permit(principal, action == Action::\"call\", resource);";
        for (policies, expected) in [
            (
                format!("{} {call}", permit("Action::\"select\", Action::\"see\"")),
                vec!["reading a column"],
            ),
            (
                permit("Action::\"select\", Action::\"see\", Action::\"read\""),
                vec!["`call` of a function"],
            ),
            (
                format!(
                    "{} {call}",
                    permit("Action::\"see\", Action::\"read_plain\"")
                ),
                vec!["`select` of a table"],
            ),
            (
                format!("{READ} {}", permit("Action::\"update\"")),
                vec!["`write`", "`change`", "`add`"],
            ),
            (
                format!("{READ} {}", permit("Action::\"insert\", Action::\"write\"")),
                vec!["`add`"],
            ),
            (
                format!("{READ} {}", permit("Action::\"delete\"")),
                vec!["`change`"],
            ),
            (
                format!("{READ} {}", permit("Action::\"write\"")),
                vec!["`update` or `insert`"],
            ),
            (
                format!(
                    "{READ} {}",
                    permit(
                        "Action::\"update\", Action::\"write\", Action::\"change\", Action::\"add\""
                    )
                ),
                vec![],
            ),
            (
                format!(
                    "{READ} {}",
                    permit("Action::\"delete\", Action::\"change\"")
                ),
                vec![],
            ),
            (READ.to_owned(), vec![]),
            ("permit(principal, action, resource);".to_owned(), vec![]),
            (
                "forbid(principal, action == Action::\"select\", resource);".to_owned(),
                vec![],
            ),
        ] {
            let told = lint(&policies, None);
            let told: Vec<_> = told
                .iter()
                .filter(|told| told.contains("no policy permits"))
                .collect();
            assert_eq!(told.len(), expected.len(), "{policies}: {told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(
                    told.contains(&format!("no policy permits {expected}")),
                    "{told}"
                );
                assert!(
                    told.contains("write for example `permit (principal, action"),
                    "{told}"
                );
            }
        }
    }
}
