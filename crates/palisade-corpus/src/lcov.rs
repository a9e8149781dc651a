//! Coverage of policies in LCOV's tracefile format, for editors and reports.

use std::{fmt::Write as _, path::Path};

use crate::policy_coverage::PolicyCoverage;

impl PolicyCoverage {
    /// A tracefile: each policy of `folder` is a function, its lines are as often hit as it determined a case, and each clause
    /// has two branches, true and false.
    #[must_use]
    pub fn lcov(&self, folder: &Path) -> String {
        let mut out = String::new();
        for of_file in self.policies.chunk_by(|a, b| a.file == b.file) {
            let Some(first) = of_file.first() else {
                continue;
            };
            let path = folder.join(&first.file);
            let _ = writeln!(out, "TN:\nSF:{}", path.display());
            for policy in of_file {
                // A comma ends a field.
                let name = policy.policy.replace([',', '\n'], " ");
                let _ = writeln!(out, "FN:{},{name}", policy.first_line);
                let _ = writeln!(out, "FNDA:{},{name}", policy.cases);
            }
            for policy in of_file {
                let mut branches = 0;
                for clause in &policy.clauses {
                    let Some(seen) = clause.seen else { continue };
                    for count in [seen.holding, seen.failing] {
                        let _ = writeln!(out, "BRDA:{},0,{branches},{count}", clause.line);
                        branches += 1;
                    }
                }
                for line in policy.first_line..=policy.last_line {
                    let _ = writeln!(out, "DA:{line},{}", policy.cases);
                }
            }
            out.push_str("end_of_record\n");
        }
        out
    }
}
