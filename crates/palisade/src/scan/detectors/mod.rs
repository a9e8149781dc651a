//! What is looked for, as data.

pub(in crate::scan) mod english;
pub(in crate::scan) mod obfuscation;
pub(in crate::scan) mod other_languages;
pub(in crate::scan) mod output_steering;
