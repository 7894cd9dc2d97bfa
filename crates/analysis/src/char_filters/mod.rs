//! Character filters: they change the text before it is cut into tokens and remember where things were.

mod html_strip;
mod mapping;
mod pattern_replace;

pub(crate) use html_strip::HtmlStrip;
pub(crate) use mapping::Mapping;
pub(crate) use pattern_replace::PatternReplaceCharFilter;

use crate::room::Room;

/// Changes a text.
pub(crate) trait CharFilter: Send + Sync {
    /// Writes the changed text, piece by piece.
    fn filter(&self, text: &str, out: &mut Rewrite<'_>);
}

/// Where an output offset and those after it came from: `(output offset, original offset)`.
type Corrections = Vec<(usize, usize)>;

/// A changed text that knows where its bytes were in the original.
pub(crate) struct Filtered {
    pub(crate) text: String,
    corrections: Vec<Corrections>,
}

impl Filtered {
    /// The text of `before`, or `original` if there was no filter yet, through one more filter.
    pub(crate) fn after(before: Option<Filtered>, original: &str, filter: &dyn CharFilter) -> Filtered {
        let (input, mut corrections) = match &before {
            None => (original, Vec::new()),
            Some(before) => (before.text.as_str(), before.corrections.clone()),
        };
        let mut rewrite = Rewrite {
            input,
            read: 0,
            text: String::with_capacity(input.len()),
            corrections: Vec::new(),
        };
        filter.filter(input, &mut rewrite);
        rewrite.keep_to(input.len());
        debug_assert_eq!(rewrite.read, input.len(), "a character filter reads its text to the end");
        corrections.push(rewrite.corrections);
        Filtered {
            text: rewrite.text,
            corrections,
        }
    }

    /// Whether it has become longer than any text may.
    pub(crate) fn is_full(&self, original: &str) -> bool {
        self.text.len() > Room::text_bytes() && self.text.len() > original.len()
    }

    /// The offset in the original text of an offset in this one.
    pub(crate) fn original(&self, offset: usize) -> usize {
        self.corrections.iter().rev().fold(offset, |offset, corrections| {
            match corrections.partition_point(|(output, _)| *output <= offset) {
                0 => offset,
                n => {
                    let (output, original) = corrections[n - 1];
                    original + (offset - output)
                }
            }
        })
    }
}

/// A text being changed: what is kept, dropped or replaced, from left to right.
pub(crate) struct Rewrite<'a> {
    input: &'a str,
    read: usize,
    text: String,
    corrections: Corrections,
}

impl Rewrite<'_> {
    /// Takes the input over unchanged up to `end`.
    pub(crate) fn keep_to(&mut self, end: usize) {
        if end > self.read {
            self.text.push_str(&self.input[self.read..end]);
            self.read = end;
        }
    }

    /// Puts `with` in the place of the input from the current point to `end`.
    /// Every byte put in beyond the length of what it replaces counts as standing at the end of that.
    pub(crate) fn replace_to(&mut self, end: usize, with: &str) {
        debug_assert!(
            self.read <= end && self.input.is_char_boundary(end),
            "a character filter goes from left to right, and not from {} to {end}",
            self.read
        );
        let (removed, start) = (end - self.read, self.text.len());
        self.text.push_str(with);
        if with.len() > removed {
            let last = self.input[self.read..end]
                .char_indices()
                .next_back()
                .map_or(end, |(at, _)| self.read + at);
            for extra in start + removed.max(1)..self.text.len() {
                self.correct(extra, last);
            }
        }
        if with.len() != removed {
            self.correct(self.text.len(), end);
        }
        self.read = end;
    }

    /// Whether it has become longer than any text may: the rest is taken over as it is.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() > Room::text_bytes() && self.text.len() > self.input.len()
    }

    fn correct(&mut self, output: usize, original: usize) {
        debug_assert!(
            self.corrections
                .last()
                .is_none_or(|last| last.0 <= output && last.1 <= original),
            "corrections rise: they are looked up by bisection"
        );
        match self.corrections.last_mut() {
            Some(last) if last.0 == output => last.1 = original,
            _ => self.corrections.push((output, original)),
        }
    }
}
