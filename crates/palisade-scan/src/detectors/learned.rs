//! The detectors of the score: one for each threshold. `score` weighs.

use crate::detector::{
    Detector,
    Severity::{High, Low, Medium},
};

pub(crate) const CERTAIN: Detector = Detector {
    id: "score.certain",
    finds: "A passage that by its wording is an instruction to a model; hardly any honest text scores so.",
    severity: High,
    anchors: &[],
    patterns: &[],
    positives: &[],
    negatives: &[],
};

pub(crate) const LIKELY: Detector = Detector {
    id: "score.likely",
    finds: "A passage that by its wording is likely an instruction to a model.",
    severity: Medium,
    anchors: &[],
    patterns: &[],
    positives: &[],
    negatives: &[],
};

pub(crate) const POSSIBLE: Detector = Detector {
    id: "score.possible",
    finds: "A passage that by its wording may be an instruction to a model; some honest texts score so.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &[],
    negatives: &[],
};
