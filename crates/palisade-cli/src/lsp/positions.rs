//! Places in a text: bytes here, lines and UTF-16 units in the protocol.

use std::ops::Range;

use lsp_types::Position;

/// The place of byte `offset` of `text`; its end if there is no such byte.
pub(super) fn find_position(text: &str, offset: usize) -> Position {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let units = before.get(start..).unwrap_or_default().encode_utf16();
    Position {
        line: count(before.matches('\n')),
        character: count(units),
    }
}

/// The places of a range of bytes.
pub(super) fn find_range(text: &str, range: Range<usize>) -> lsp_types::Range {
    lsp_types::Range {
        start: find_position(text, range.start),
        end: find_position(text, range.end),
    }
}

/// The byte at a place; the end of its line where that is shorter.
pub(super) fn find_offset(text: &str, position: Position) -> usize {
    let mut start = 0;
    for _ in 0..position.line {
        let rest = text.get(start..).unwrap_or_default();
        match rest.find('\n') {
            Some(at) => start += at + 1,
            None => return text.len(),
        }
    }
    let line = text.get(start..).unwrap_or_default();
    let line = line.split(['\n', '\r']).next().unwrap_or_default();
    let mut units = position.character as usize;
    let mut offset = start;
    for c in line.chars() {
        if units < c.len_utf16() {
            break;
        }
        units -= c.len_utf16();
        offset += c.len_utf8();
    }
    offset
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_utf16_units() {
        let text = "a\r\nz😀é\n";
        for (offset, line, character) in [(0, 0, 0), (3, 1, 0), (4, 1, 1), (8, 1, 3), (10, 1, 4)] {
            let position = Position { line, character };
            assert_eq!(find_position(text, offset), position);
            assert_eq!(find_offset(text, position), offset);
        }
        let beyond = |line, character| find_offset(text, Position { line, character });
        assert_eq!(beyond(0, 9), 1);
        assert_eq!(beyond(1, 9), 10);
        assert_eq!(beyond(9, 0), text.len());
        assert_eq!(find_position(text, 99), Position::new(2, 0));
    }
}
