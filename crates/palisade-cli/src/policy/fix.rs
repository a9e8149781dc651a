//! `palisade policy check --fix`: what can be mended without a person's judgement.

use std::{collections::BTreeMap, ops::Range};

use palisade::policy::{PolicyProblem, Rule};
use similar::TextDiff;

use crate::{
    exit::{Exit, Failure},
    policies::Policies,
    policy::test::replace,
    stdout,
};

/// Mends what `warnings` tell of, or only prints how.
pub(crate) fn run(
    policies: &Policies,
    warnings: &[PolicyProblem],
    dry_run: bool,
) -> Result<Exit, Failure> {
    if policies.folder().is_none() {
        return Err(Failure::Usage(
            "the starter policies are built in\n  help: name a folder, `--policies DIR`".to_owned(),
        ));
    }
    // By file, what is cut out of it.
    let mut cuts: BTreeMap<&str, Vec<Range<usize>>> = BTreeMap::new();
    let mut count = 0_usize;
    for warning in warnings {
        let text = policies.text(&warning.file);
        let cut = text.and_then(|text| find_cut(warning, text));
        if let Some(cut) = cut {
            count += 1;
            cuts.entry(&warning.file).or_default().push(cut);
        }
    }
    for (file, mut cuts) in cuts {
        let Some((path, old)) = policies.path_of(file).zip(policies.text(file)) else {
            continue;
        };
        cuts.sort_by_key(|cut| cut.start);
        let mut new = old.to_owned();
        // From the end, so that the places of earlier ones stay.
        for cut in cuts.into_iter().rev() {
            new.replace_range(cut, "");
        }
        let shown = path.display().to_string();
        let diff = TextDiff::from_lines(old, &new)
            .unified_diff()
            .context_radius(2)
            .header(&shown, &shown)
            .to_string();
        stdout::text(&diff)?;
        if !dry_run {
            replace(&path, &new)?;
        }
    }
    let of = warnings.len();
    let told = match dry_run {
        true => format!("{count} of {of} warnings would be mended\n"),
        false => format!("{count} of {of} warnings were mended\n"),
    };
    stdout::text(&told)?;
    Ok(Exit::Permitted)
}

/// What is cut out of `text`; none where a person has to decide.
pub(crate) fn find_cut(warning: &PolicyProblem, text: &str) -> Option<Range<usize>> {
    warning.rule.filter(|rule| Rule::is_mended_alone(*rule))?;
    let span = warning.span?;
    let end = span.offset + span.length;
    let before = text.get(..span.offset)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let lead = before.get(line..)?;
    let rest = text.get(end..)?;
    // The whole line, where nothing else stands on it.
    if lead.trim().is_empty() {
        let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
        Some(line..end + length)
    } else {
        Some(line + lead.trim_end().len()..end)
    }
}
