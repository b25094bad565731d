use serde_json::json;

use super::*;

fn things() -> Resource {
    Resource { group: "example.com".into(), version: "v1".into(), plural: "things".into() }
}

#[test]
fn the_hash_of_the_index_is_the_version() {
    let index = json!({"paths": {
        "apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=ABC"},
        "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"},
    }});
    let index = index.to_string();
    assert_eq!(hash_in(index.as_bytes(), &things()).as_deref(), Some("ABC"));
    let core = Resource { group: String::new(), version: "v1".into(), plural: "pods".into() };
    assert_eq!(hash_in(index.as_bytes(), &core), None);
    assert_eq!(hash_in(b"page", &core), None);
}

#[test]
fn a_schema_that_cannot_be_read_is_asked_for_less_and_less_often() {
    let failure = || Err(RequestError::NotServed { url: String::new() });
    let mut schedule = Schedule::new("a");
    let waits: Vec<Duration> = (0..8).map(|_| schedule.wait(&failure())).collect();
    assert!(waits[0] <= Duration::from_secs(1) && waits[7] >= PERIOD / 2, "{waits:?}");
    assert!(waits[..6].is_sorted(), "{waits:?}");
    let unpublished = PublishedSchema { version: Arc::from(""), schema: None };
    assert!(schedule.wait(&Ok(unpublished)) >= PERIOD / 2, "a schema that is not published is no success");
    let published = PublishedSchema { version: Arc::from("1"), schema: None };
    assert_eq!(schedule.wait(&Ok(published)), PERIOD);
    assert!(schedule.wait(&failure()) <= Duration::from_secs(1));
}
