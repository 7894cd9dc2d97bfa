//! `format` of numbers: the patterns of Java's `DecimalFormat` that are in common use.

/// The common part of `DecimalFormat`: digits before and after the point, groups, a prefix and a suffix.
pub(crate) fn decimal(pattern: &str, number: f64) -> String {
    let pattern = pattern.split(';').next().unwrap_or(pattern);
    let is_digit = |c: char| matches!(c, '0' | '#' | ',' | '.');
    let start = pattern.find(is_digit).unwrap_or(pattern.len());
    let end = pattern.rfind(is_digit).map_or(start, |at| at + 1);
    let (prefix, body, suffix) = (&pattern[..start], &pattern[start..end], &pattern[end..]);
    if let Some((body, exponent)) = body.split_once('E').filter(|(_, rest)| rest.starts_with('0')) {
        return scientific(prefix, body, exponent, number);
    }
    let number = if suffix.contains('%') { number * 100.0 } else { number };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let text = format!("{:.*}", fraction.len(), number.abs());
    let (mut digits, mut rest) = match text.split_once('.') {
        Some((whole, rest)) => (whole.to_owned(), rest.to_owned()),
        None => (text.clone(), String::new()),
    };
    let least = fraction.matches('0').count();
    while rest.len() > least && rest.ends_with('0') {
        rest.pop();
    }
    let zeros = whole.matches('0').count();
    while digits.len() < zeros {
        digits.insert(0, '0');
    }
    if let Some(group) = whole.rfind(',').map(|at| whole.len() - at - 1).filter(|group| *group > 0) {
        let mut at = digits.len();
        while at > group {
            at -= group;
            digits.insert(at, ',');
        }
    }
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if number < 0.0 { "-" } else { "" };
    format!(
        "{sign}{}{digits}{point}{rest}{}",
        prefix.replace('\'', ""),
        suffix.replace('\'', "")
    )
}

/// As `0.###E0`: digits before the point as the pattern has them, then the exponent of ten. Of ties the even digit.
fn scientific(prefix: &str, body: &str, exponent: &str, number: f64) -> String {
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let digits = whole.len().max(1) as i32;
    let mut power = if number == 0.0 {
        0
    } else {
        number.abs().log10().floor() as i32 - (digits - 1)
    };
    let shown = |power: i32| format!("{:.*}", fraction.len(), number.abs() / 10f64.powi(power));
    let mut text = shown(power);
    if text.split('.').next().map_or(0, str::len) as i32 > digits {
        power += 1;
        text = shown(power);
    }
    let least = fraction.matches('0').count();
    if let Some(point) = text.find('.') {
        while text.len() - point - 1 > least && text.ends_with('0') {
            text.pop();
        }
        if text.ends_with('.') {
            text.pop();
        }
    }
    let width = exponent.matches('0').count();
    let (sign, below) = (if number < 0.0 { "-" } else { "" }, if power < 0 { "-" } else { "" });
    format!("{sign}{}{text}E{below}{:0width$}", prefix.replace('\'', ""), power.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let rows = [
            ("0.0", 2.0, "2.0"),
            ("#,##0.00", 1_234_567.5, "1,234,567.50"),
            ("000", 7.0, "007"),
            ("0.##", -1.5, "-1.5"),
            ("$0", 3.2, "$3"),
            ("0.###E0", 137.54, "1.375E2"),
            ("0.###E0", -168.0, "-1.68E2"),
            ("0.###E0", 0.0, "0E0"),
            ("0.0E00", 0.000_99, "9.9E-04"),
            ("0.#E0", 99.99, "1E2"),
        ];
        for (pattern, value, expected) in rows {
            assert_eq!(decimal(pattern, value), expected, "{pattern}");
        }
    }
}
