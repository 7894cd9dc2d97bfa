//! Sentences of documents: how long they are.

use std::path::Path;

/// The mean number of words of a document's sentences; headings, tables and blocks of code have none.
pub fn mean_sentence(text: &str) -> f64 {
    let lengths = sentences(text);
    let words: usize = lengths.iter().sum();
    if lengths.is_empty() {
        0.0
    } else {
        words as f64 / lengths.len() as f64
    }
}

/// As [`mean_sentence`], of a file.
///
/// # Errors
/// The file cannot be read.
pub fn mean_sentence_of(path: &Path) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(mean_sentence(&text))
}

fn sentences(text: &str) -> Vec<usize> {
    let (mut out, mut words, mut is_code) = (Vec::new(), 0, false);
    let end = |words: &mut usize, out: &mut Vec<usize>| {
        // One or two words are a label.
        if *words > 2 {
            out.push(*words);
        }
        *words = 0;
    };
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_item = line.starts_with("- ")
            || line.starts_with("* ")
            || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if is_code || line.is_empty() || line.starts_with('#') || line.starts_with('|') || line.starts_with("```") {
            end(&mut words, &mut out);
            continue;
        }
        if is_item {
            end(&mut words, &mut out);
        }
        for word in line.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)) {
            words += 1;
            let bare = word.trim_end_matches(['"', ')', '*', '`', '_']);
            if bare.ends_with(['.', '!', '?', ':']) {
                end(&mut words, &mut out);
            }
        }
    }
    end(&mut words, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_marks_items_and_blocks() {
        let text = "# A heading\n\nOne two three. Four five six seven\neight.\n\n- nine ten eleven\n- twelve 13 14 15\n\n```\nno no no\n```\n";
        assert_eq!(sentences(text), [3, 5, 3, 4]);
    }
}
