//! What is looked for, as data.

pub(crate) mod leaks;
pub(crate) mod learned;
pub(crate) mod obfuscation;
pub(crate) mod other_languages;
pub(crate) mod output_steering;
pub(crate) mod registry;
