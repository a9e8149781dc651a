//! Decisions read off a sequence of numbers, so that a test runner that makes the sequence shorter and its
//! numbers smaller makes what is built from it simpler.

/// A sequence of numbers, used from the front. Where it ends, every decision is the first alternative, which is
/// the simplest.
#[derive(Debug)]
pub(crate) struct Choices<'c> {
    numbers: &'c [u16],
    at: usize,
}

impl<'c> Choices<'c> {
    pub(crate) fn new(numbers: &'c [u16]) -> Self {
        Self { numbers, at: 0 }
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(number) % count
    }

    /// True in about `percent` of 100.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of `items`.
    pub(crate) fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.below(items.len())]
    }

    /// The index of one of `weights`, as often as it says.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }

    /// Whether nothing is left but first alternatives.
    pub(crate) fn is_over(&self) -> bool {
        self.at >= self.numbers.len()
    }
}
