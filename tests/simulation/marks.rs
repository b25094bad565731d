//! The values of Secrets in a world: marked, so that each byte string which shows one is recognized.

use data_encoding::{BASE64, HEXLOWER};
use sync_engine::object::hash::tuple_hash;

/// What every value begins with.
const MARK: &str = "MARKED-SECRET-OF-";
/// As long as every value is.
const LENGTH: usize = 32;

/// The value of a Secret: 32 bytes, of something that a tenant has.
pub fn value(seed: u64, of: &str, number: u32) -> String {
    let rest = tuple_hash([seed.to_string().as_str(), of, number.to_string().as_str()], LENGTH);
    let tenant = of.split('-').next().unwrap_or_default();
    format!("{MARK}{tenant}-{rest}")[..LENGTH].to_owned()
}

/// The tenant whose value a text is.
pub fn tenant(value: &str) -> Option<&str> {
    value.strip_prefix(MARK)?.split('-').next()
}

/// How a text shows a value of a Secret, if it shows any: as it is, as hexadecimal digits, or as base64 of something that
/// holds it.
pub fn shown(text: &str) -> Option<&'static str> {
    shown_of(MARK, text)
}

/// How a text shows another one: in base64, from each of the three positions that it may have; then in other forms.
pub fn shown_of(secret: &str, text: &str) -> Option<&'static str> {
    let encoded = |before: usize| {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        ("as base64", BASE64.encode(&bytes)[from..to].to_owned())
    };
    let others = [("as it is", secret.to_owned()), ("as hexadecimal digits", HEXLOWER.encode(secret.as_bytes()))];
    let (how, _) = (0..3).map(encoded).chain(others).find(|(_, form)| text.contains(form))?;
    Some(how)
}

#[test]
fn a_value_is_recognized_in_every_form() {
    let value = value(7, "a", 1);
    assert_eq!((value.len(), tenant(&value)), (LENGTH, Some("a")));
    for before in ["", "x", "xy", "xyz"] {
        assert_eq!(shown(&BASE64.encode(format!("{before}{value}").as_bytes())), Some("as base64"));
    }
    assert_eq!(shown(&format!("password={value}")), Some("as it is"));
    assert_eq!(shown(&HEXLOWER.encode(value.as_bytes())), Some("as hexadecimal digits"));
    assert_eq!(shown("nothing"), None);
}
