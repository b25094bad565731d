//! What an object waits for before it is made: the objects that it depends on.

use super::observed::{Observed, Standing};
use super::render::{self, Rendering, Wanted};
use super::{Cause, Reason, live, status};
use crate::mapping::{Mapping, ObjectRule};
use crate::object::readiness::{Readiness, readiness};

/// Why an object cannot be made yet. One that stands already waits for nothing.
pub fn unmet(mapping: &Mapping, observed: &Observed, rule: &ObjectRule, rendering: &Rendering) -> Option<Reason> {
    rule.depends_on.iter().find_map(|position| {
        let needed = mapping.objects.get(*position)?;
        match rendering.objects.get(*position) {
            // What is wanted absent holds nothing up.
            Some(Ok(Wanted::Absent)) => None,
            _ => unready(mapping, observed, needed, rendering),
        }
    })
}

fn unready(mapping: &Mapping, observed: &Observed, rule: &ObjectRule, rendering: &Rendering) -> Option<Reason> {
    let id = &rule.id;
    let waiting = |detail: String| Some(Reason { cause: Cause::Waiting, detail });
    let standing = render::standing(mapping, observed, rule, &rendering.place);
    let Some(standing) = standing.filter(|standing| !live::is_earlier(observed, rule, standing)) else {
        return waiting(format!("waits for object `{id}`, which does not stand yet"));
    };
    match state(rule, standing, rendering) {
        Ok(Readiness::Ready) => None,
        Ok(Readiness::Pending(why)) => waiting(format!("waits for object `{id}`, which is not ready: {why}")),
        Ok(Readiness::Failed(why)) => waiting(format!("waits for object `{id}`, which has failed: {why}")),
        Err(reason) => Some(reason),
    }
}

/// What the mapping says of an object that stands, else what its kind says.
fn state(rule: &ObjectRule, standing: &Standing, rendering: &Rendering) -> Result<Readiness, Reason> {
    let library = readiness(&rule.kind, &standing.object);
    let mut scope = None;
    let mut holds = |expression: &crate::mapping::expression::Expression, field: &str| {
        let scope = scope.get_or_insert_with(|| status::lenient(&rendering.scope));
        render::truth(expression.evaluate(scope)).map_err(|unrendered| {
            let Reason { cause, detail } = unrendered.into();
            Reason { cause, detail: format!("`{field}` of object `{}`: {detail}", rule.id) }
        })
    };
    if let Some(failed) = &rule.failed
        && holds(failed, "failed")?
    {
        return Ok(Readiness::Failed("its `failed` is true".into()));
    }
    match &rule.ready {
        _ if standing.is_deleting() => Ok(library),
        Some(ready) if holds(ready, "ready")? => Ok(Readiness::Ready),
        Some(_) => Ok(Readiness::Pending("its `ready` is false".into())),
        None if rule.failed.is_some() => Ok(match library {
            Readiness::Failed(why) => Readiness::Pending(why),
            other => other,
        }),
        None => Ok(library),
    }
}
