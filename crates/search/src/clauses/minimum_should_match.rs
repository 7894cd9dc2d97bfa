//! `minimum_should_match` in all its forms.

use model::{Error, Result};

/// How many of `count` clauses a specification asks for: `2`, `-1`, `75%`, `-25%`, `2<75% 9<-3`.
///
/// # Errors
/// Texts that are no specification.
pub(super) fn minimum_should_match(spec: &str, count: usize) -> Result<usize> {
    let spec = spec.trim();
    let malformed = || Error::no_number(spec);
    if spec.contains('<') {
        let joined = spec.replace(" <", "<").replace("< ", "<");
        let mut result = count;
        for part in joined.split_whitespace() {
            let (bound, then) = part.split_once('<').ok_or_else(malformed)?;
            let bound: usize = bound.trim().parse().map_err(|_| malformed())?;
            if count <= bound {
                return Ok(result);
            }
            result = minimum_should_match(then, count)?;
        }
        return Ok(result);
    }
    let total = i64::try_from(count).unwrap_or(i64::MAX);
    let number = match spec.strip_suffix('%') {
        Some(percent) => {
            let percent: i64 = percent.trim().parse().map_err(|_| malformed())?;
            let part = (total as f64 * percent as f64 / 100.0) as i64;
            if percent < 0 { total + part } else { part }
        }
        None => {
            let number: i64 = spec.parse().map_err(|_| malformed())?;
            if number < 0 { total + number } else { number }
        }
    };
    Ok(usize::try_from(number.max(0)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str, count: usize, expected: Option<usize>) {
        assert_eq!(minimum_should_match(spec, count).ok(), expected, "{spec} of {count}");
    }

    #[test]
    fn forms() {
        check("2", 3, Some(2));
        check("5", 3, Some(5));
        check("-1", 3, Some(2));
        check("-9", 3, Some(0));
        check("75%", 3, Some(2));
        check("-25%", 4, Some(3));
        check("3<90%", 3, Some(3));
        check("3<90%", 4, Some(3));
        check("2<-25% 9<-3", 2, Some(2));
        check("2<-25% 9<-3", 8, Some(6));
        check("2<-25% 9<-3", 10, Some(7));
        check("x", 3, None);
    }
}
