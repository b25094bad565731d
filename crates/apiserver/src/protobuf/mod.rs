//! Bodies in Protobuf, which kubectl and other Go clients send for built-in kinds and no server may refuse: client-go
//! has a second try in JSON for CBOR only.
//!
//! Read only; answers are JSON, which such clients accept as well.

mod messages;

use std::str;

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::timestamp::Timestamp;
use messages::{Field, Kind, Message};

pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with, before the envelope that says what it is
/// (`k8s.io/apimachinery/pkg/runtime/serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    NoMagic,
    #[error("no protobuf message is known for {api_version:?}, {kind:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("the protobuf message is broken")]
    Broken,
}

/// The JSON of a body. What is not set is left out, as Go's `omitempty` does.
pub(super) fn decode(body: &[u8]) -> Result<Value, Unreadable> {
    let envelope = message(messages::ENVELOPE, body.strip_prefix(MAGIC).ok_or(Unreadable::NoMagic)?)?;
    let text = |field: &str| envelope["typeMeta"][field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = BASE64.decode(envelope["raw"].as_str().unwrap_or_default().as_bytes());
    let raw = raw.map_err(|_| Unreadable::Broken)?;
    let Some(known) = messages::known(&api_version, &kind) else {
        return Err(Unreadable::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    if let Value::Object(fields) = message(known, &raw)? {
        object.extend(fields);
    }
    Ok(Value::Object(object))
}

/// A value as it stands on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn message(known: Message, mut bytes: &[u8]) -> Result<Value, Unreadable> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = wire(tag & 7, &mut bytes)?;
        if let Some(Field(_, name, kind)) = known.iter().find(|Field(number, ..)| u64::from(*number) == tag >> 3) {
            put(&mut object, name, kind, wire)?;
        }
    }
    Ok(Value::Object(object))
}

fn put(object: &mut Map<String, Value>, name: &str, kind: &Kind, wire: Wire) -> Result<(), Unreadable> {
    let value = match (kind, wire) {
        (Kind::Flag, Wire::Number(number)) => (number != 0).into(),
        (Kind::Number, Wire::Number(number)) => number.cast_signed().into(),
        (Kind::Count, Wire::Number(0)) => return Ok(()),
        (Kind::Count, Wire::Number(number)) => number.cast_signed().into(),
        (Kind::Text | Kind::Time | Kind::MicroTime, Wire::Bytes([])) => return Ok(()),
        (Kind::Text, Wire::Bytes(bytes)) => text(bytes)?,
        (Kind::Bytes, Wire::Bytes(bytes)) => BASE64.encode(bytes).into(),
        (Kind::Json, Wire::Bytes(bytes)) => fields(bytes)?,
        (Kind::Time, Wire::Bytes(bytes)) => time(bytes, false)?,
        (Kind::MicroTime, Wire::Bytes(bytes)) => time(bytes, true)?,
        (Kind::Message(known), Wire::Bytes(bytes)) => message(known, bytes)?,
        (Kind::Texts, Wire::Bytes(bytes)) => return push(object, name, text(bytes)?),
        (Kind::Messages(known), Wire::Bytes(bytes)) => return push(object, name, message(known, bytes)?),
        (Kind::TextMap, Wire::Bytes(bytes)) => return put_entry(object, name, messages::TEXT_ENTRY, bytes),
        (Kind::BytesMap, Wire::Bytes(bytes)) => return put_entry(object, name, messages::BYTES_ENTRY, bytes),
        _ => return Err(Unreadable::Broken),
    };
    object.insert(name.to_owned(), value);
    Ok(())
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Unreadable> {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().ok_or(Unreadable::Broken)?.push(value);
    Ok(())
}

/// One entry of a map: a message of key and value.
fn put_entry(object: &mut Map<String, Value>, name: &str, entry: Message, bytes: &[u8]) -> Result<(), Unreadable> {
    let mut entry = message(entry, bytes)?;
    let key = entry["key"].as_str().unwrap_or_default().to_owned();
    let value = match entry["value"].take() {
        Value::Null => "".into(),
        value => value,
    };
    let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    map.as_object_mut().ok_or(Unreadable::Broken)?.insert(key, value);
    Ok(())
}

fn wire<'a>(kind: u64, bytes: &mut &'a [u8]) -> Result<Wire<'a>, Unreadable> {
    match kind {
        0 => varint(bytes).map(Wire::Number),
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| Unreadable::Broken)?;
            let (value, rest) = bytes.split_at_checked(length).ok_or(Unreadable::Broken)?;
            *bytes = rest;
            Ok(Wire::Bytes(value))
        }
        // Fixed widths and groups, of which these kinds have none.
        _ => Err(Unreadable::Broken),
    }
}

/// Seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(Unreadable::Broken)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Unreadable::Broken)
}

fn text(bytes: &[u8]) -> Result<Value, Unreadable> {
    str::from_utf8(bytes).map(Value::from).map_err(|_| Unreadable::Broken)
}

/// `FieldsV1`: JSON in a message of its own.
fn fields(bytes: &[u8]) -> Result<Value, Unreadable> {
    let raw = message(messages::FIELDS, bytes)?;
    let raw = BASE64.decode(raw["raw"].as_str().unwrap_or_default().as_bytes()).map_err(|_| Unreadable::Broken)?;
    serde_json::from_slice(&raw).map_err(|_| Unreadable::Broken)
}

fn time(bytes: &[u8], with_microseconds: bool) -> Result<Value, Unreadable> {
    let time = message(messages::TIME, bytes)?;
    let whole = Timestamp(time["seconds"].as_i64().unwrap_or_default()).to_string();
    let micros = time["nanos"].as_i64().unwrap_or_default() / 1000;
    Ok(match with_microseconds {
        true => format!("{}.{micros:06}Z", whole.trim_end_matches('Z')).into(),
        false => whole.into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let kind = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &kind), field(2, raw), field(3, b"")].concat()
    }

    #[test]
    fn a_secret_comes_as_json() {
        let metadata =
            [field(1, b"a"), field(2, b""), field(8, b""), field(11, &[field(1, b"l"), field(2, b"1")].concat())];
        let entry = [field(1, b"key"), field(2, &[0, 255])].concat();
        let secret = [field(1, &metadata.concat()), field(2, &entry), field(3, b"Opaque"), vec![5 << 3, 0]].concat();
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"l": "1"}},
            "data": {"key": "AP8="}, "type": "Opaque", "immutable": false,
        });
        assert_eq!(decode(&body("v1", "Secret", &secret)), Ok(expected));
    }

    #[test]
    fn times_and_lists_are_read() {
        let renewed = [vec![1 << 3, 0xc0, 0xbf, 0xb7, 0xd3, 0x06], vec![2 << 3, 0xd8, 0x36]].concat();
        let spec = [field(1, b"me"), vec![2 << 3, 15], field(4, &renewed)].concat();
        let metadata = [field(14, b"x/y"), field(14, b"z")].concat();
        let lease = decode(&body("coordination.k8s.io/v1", "Lease", &[field(1, &metadata), field(2, &spec)].concat()));
        let lease = lease.expect("a lease");
        assert_eq!(lease["metadata"]["finalizers"], json!(["x/y", "z"]));
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
        assert_eq!(lease["spec"]["renewTime"], "2026-08-01T12:00:00.000007Z");
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(decode(b"{}"), Err(Unreadable::NoMagic));
        let unknown = Unreadable::UnknownKind { api_version: "v1".into(), kind: "Pod".into() };
        assert_eq!(decode(&body("v1", "Pod", b"")), Err(unknown));
        assert_eq!(decode(&body("v1", "Secret", &[0x0a, 9])), Err(Unreadable::Broken));
    }
}
