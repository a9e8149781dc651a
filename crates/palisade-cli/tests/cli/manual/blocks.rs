//! Fenced blocks of Markdown.

use std::ops::Range;

/// A block between fences.
pub(crate) struct Block {
    /// What stands behind the opening fence: the language, then attributes, set apart by commas.
    pub(crate) info: String,
    /// Its lines in the page, from 0, without the fences.
    pub(crate) lines: Range<usize>,
    /// Its text, each line ended.
    pub(crate) text: String,
}

impl Block {
    /// The language.
    pub(crate) fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// The exit code of the attribute `exit-N`: rustdoc, which reads README too, takes no `=`.
    pub(crate) fn exit(&self) -> i32 {
        let mut attributes = self.info.split(',').skip(1);
        attributes
            .find_map(|attribute| attribute.strip_prefix("exit-"))
            .map_or(0, |code| code.parse().unwrap())
    }

    /// The value of the attribute `name=…`.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.info.split(',').skip(1);
        attributes.find_map(|attribute| attribute.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether the word `name` is an attribute.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.info.split(',').skip(1).any(|word| word == name)
    }
}

/// The blocks of a page, in order.
pub(crate) fn read(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block {
                    info: info.trim().to_owned(),
                    lines: number + 1..number + 1,
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.lines.end = number + 1;
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}
