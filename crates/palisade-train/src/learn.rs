//! Logistic regression with a quadratic penalty, by coordinate descent in the dual; and which window of a text it is shown.

use crate::examples::{Example, Examples, View, Window};

/// Weights of features, and what is added to each score.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) weights: Vec<f64>,
    pub(crate) bias: f64,
}

/// How much an error costs beside large weights.
const COST: f64 = 4.0;
/// Passes over the windows, and times that windows are chosen anew.
/// How a window is seen, and how much that counts.
const VIEWS: [(View, f64); 2] = [(View::Whole, 1.0), (View::Signals, 0.3)];
const PASSES: usize = 12;
const ROUNDS: usize = 4;

impl Model {
    /// Learns from the examples in `among`. Of an injection, one window is enough to tell it, so that it is shown as its best; of
    /// an honest text, no window may.
    pub(crate) fn learn(examples: &Examples, among: &[usize]) -> Self {
        let mut model = Self {
            weights: vec![0.0; examples.hashes.len()],
            bias: 0.0,
        };
        for round in 0..ROUNDS {
            let mut shown = Vec::new();
            for index in among {
                let Some(example) = examples.all.get(*index) else {
                    continue;
                };
                let best = examples
                    .best(*index, &model.weights)
                    .filter(|_| round > 0)
                    .map(|(_, window)| window);
                let windows: Vec<Window> = match best {
                    Some(best) if example.injection => vec![best],
                    best => examples
                        .separate_windows(*index)
                        .into_iter()
                        .chain(best)
                        .collect(),
                };
                let share = if example.injection {
                    example.weight / windows.len() as f64
                } else {
                    example.weight
                };
                for window in windows {
                    for (view, part) in VIEWS {
                        shown.push(Shown::new(examples, example, &window, view, share * part));
                    }
                }
            }
            model.fit(&mut shown);
        }
        model
    }

    /// The score of a text, none if it has no passage.
    pub(crate) fn score(&self, examples: &Examples, example: usize) -> Option<f64> {
        let (score, _) = examples.best(example, &self.weights)?;
        Some(score + self.bias)
    }

    /// Yu, Huang and Lin, Dual coordinate descent methods for logistic regression (2011), one Newton step or more a window.
    fn fit(&mut self, shown: &mut [Shown]) {
        self.weights.fill(0.0);
        self.bias = 0.0;
        for one in shown.iter_mut() {
            one.alpha = one.cost * 0.001;
            let change = one.alpha * one.sign;
            self.add(&one.vector, change);
        }
        let mut order: Vec<usize> = (0..shown.len()).collect();
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        for _ in 0..PASSES {
            for at in (1..order.len()).rev() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let other = usize::try_from(state % (at as u64 + 1)).unwrap_or(0);
                order.swap(at, other);
            }
            for index in &order {
                let Some(one) = shown.get_mut(*index) else {
                    continue;
                };
                let margin = one.sign * (self.dot(&one.vector) + self.bias);
                let before = one.alpha;
                one.alpha = one.solve(margin);
                let change = (one.alpha - before) * one.sign;
                self.add(&one.vector, change);
            }
        }
    }

    fn dot(&self, vector: &[(u32, f64)]) -> f64 {
        vector
            .iter()
            .map(|(feature, value)| {
                let weight = usize::try_from(*feature)
                    .ok()
                    .and_then(|f| self.weights.get(f));
                weight.unwrap_or(&0.0) * value
            })
            .sum()
    }

    fn add(&mut self, vector: &[(u32, f64)], times: f64) {
        for (feature, value) in vector {
            if let Some(weight) = usize::try_from(*feature)
                .ok()
                .and_then(|f| self.weights.get_mut(f))
            {
                *weight += value * times;
            }
        }
        self.bias += times;
    }
}

/// A window that is learned from.
struct Shown {
    vector: Vec<(u32, f64)>,
    /// 1 for an injection, -1 for an honest text.
    sign: f64,
    cost: f64,
    /// The square of the vector and of the bias.
    square: f64,
    alpha: f64,
}

impl Shown {
    fn new(examples: &Examples, of: &Example, window: &Window, view: View, weight: f64) -> Self {
        let vector = examples.vector(window, view);
        Self {
            square: vector.iter().map(|(_, v)| v * v).sum::<f64>() + 1.0,
            vector,
            sign: if of.injection { 1.0 } else { -1.0 },
            cost: COST * weight,
            alpha: 0.0,
        }
    }

    /// The best multiplier between 0 and the cost, given the margin with the present one.
    fn solve(&self, margin: f64) -> f64 {
        let edge = self.cost * 1e-9;
        let mut z = self.alpha.clamp(edge, self.cost - edge);
        for _ in 0..20 {
            let slope = self.square * (z - self.alpha) + margin + (z / (self.cost - z)).ln();
            let curve = self.square + self.cost / (z * (self.cost - z));
            let mut next = z - slope / curve;
            if next <= 0.0 {
                next = z * 0.1;
            } else if next >= self.cost {
                next = self.cost - (self.cost - z) * 0.1;
            }
            let done = (next - z).abs() < self.cost * 1e-6;
            z = next.clamp(edge, self.cost - edge);
            if done {
                break;
            }
        }
        z
    }
}
