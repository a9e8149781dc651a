//! The problems of a folder, as an editor shows them.

use lsp_types::{Diagnostic, DiagnosticSeverity, DiagnosticTag, NumberOrString, Position};
use palisade::policy::{PolicyProblem, Rule};

use crate::{
    lsp::positions::{find_position, find_range},
    policy::check::problem_code,
};

/// What the editor shows as the origin.
pub(super) const SOURCE: &str = "palisade";

/// A problem of a file with this text.
pub(super) fn describe_problem(
    problem: &PolicyProblem,
    text: &str,
    severity: DiagnosticSeverity,
) -> Diagnostic {
    let range = match (problem.span, problem.line) {
        (Some(span), _) => find_range(text, span.offset..span.offset + span.length),
        (None, Some(line)) => whole_line(text, line),
        (None, None) => find_range(text, 0..0),
    };
    let help = problem.help.as_deref();
    let help = help.map(|help| format!("\nhelp: {help}"));
    let message = format!("{}{}", problem.message, help.unwrap_or_default());
    let tags = match problem.rule {
        Some(rule) if rule.is_mended_alone() => Some(vec![DiagnosticTag::UNNECESSARY]),
        Some(_) | None => None,
    };
    Diagnostic {
        range,
        severity: Some(severity),
        code: Some(NumberOrString::String(problem_code(problem).to_owned())),
        source: Some(SOURCE.to_owned()),
        message,
        tags,
        ..Diagnostic::default()
    }
}

/// That a folder cannot be read at all.
pub(super) fn describe_fault(message: String) -> Diagnostic {
    Diagnostic {
        severity: Some(DiagnosticSeverity::ERROR),
        code: Some(NumberOrString::String("not-loaded".to_owned())),
        source: Some(SOURCE.to_owned()),
        message,
        ..Diagnostic::default()
    }
}

/// A rule as the manual has it.
pub(super) fn explain_rule(rule: Rule) -> String {
    format!(
        "**{rule}**: {}.\n\nWhy it matters: {}.\n\nWhat to do: {}.",
        rule.summary(),
        rule.harm(),
        rule.cure()
    )
}

/// A line of a text, from 1.
pub(super) fn whole_line(text: &str, line: u32) -> lsp_types::Range {
    let line = line.saturating_sub(1);
    let length = text.lines().nth(line as usize).unwrap_or_default();
    let length = find_position(length, length.len()).character;
    lsp_types::Range {
        start: Position::new(line, 0),
        end: Position::new(line, length),
    }
}
