//! Names of labels in a path: Prometheus writes those with other characters than letters, digits and `_` as `U__` and codes.

/// The name that is meant; `None`: it is none.
pub(crate) fn unescaped(name: &str) -> Option<String> {
    let Some(mut rest) = name.strip_prefix("U__") else {
        return (!name.is_empty()).then(|| name.to_owned());
    };
    let mut read = String::new();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '_' {
            read.push(c);
            continue;
        }
        if let Some(after) = rest.strip_prefix('_') {
            read.push('_');
            rest = after;
            continue;
        }
        let (code, after) = rest.split_once('_')?;
        read.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32)?);
        rest = after;
    }
    (!read.is_empty()).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_prometheus_writes_them_in_paths() {
        for (written, name) in [
            ("job", Some("job")),
            ("__name__", Some("__name__")),
            ("http.status", Some("http.status")),
            ("U__http_2e_status", Some("http.status")),
            ("U__a__b", Some("a_b")),
            ("", None),
            ("U__", None),
            ("U__a_", None),
            ("U__a_zz_", None),
            ("U__a_d800_", None),
        ] {
            assert_eq!(unescaped(written).as_deref(), name, "{written}");
        }
    }
}
