//! What each reason of `Synced` means, and what to do. `docs/reference.md` is made of it.

use crate::plan::Cause;

/// Both in Markdown, with links as from a page in `docs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    pub meaning: &'static str,
    pub what_to_do: &'static str,
}

impl Advice {
    pub fn of(cause: Cause) -> Self {
        let (meaning, what_to_do) = match cause {
            Cause::TargetChanged => (
                "the connection leads to another cluster than before; the engine writes nothing",
                "give the right kubeconfig, or see [Another target](operations.md#another-target)",
            ),
            Cause::Conflict => (
                "a foreign object has the namespace and name of a target object",
                "remove it, set `adopt: IfUnowned`, or let the consumer take another name",
            ),
            Cause::RenderFailed => {
                ("an expression of the mapping fails for this source", "the message names the expression")
            }
            Cause::IdentityChanged => {
                ("the mapping gives an existing object another kind or name", "see `onIdentityChange`, or go back")
            }
            Cause::Recreated => (
                "the source was created anew, and the objects of the former source exist",
                "see `lifecycle.onSourceRecreated`",
            ),
            Cause::Refused => ("an API server refused an object", "the message is the server's"),
            Cause::ClaimNotAccepted => (
                "the source's workspace has not accepted a permission claim that a related object needs",
                "the message holds the lines for its APIBinding; see [Permission claims](operations.md#permission-claims)",
            ),
            Cause::Stuck => {
                ("a deletion takes longer than `lifecycle.stuckAfter`", "look at the finalizers of the target object")
            }
            Cause::Deleting => (
                "an object is being deleted, and finalizers hold it",
                "the message names them; `Stuck` follows after `lifecycle.stuckAfter`",
            ),
            Cause::Held => (
                "an edit or the removal of the mapping takes away more than `release.maxLost` allows",
                "`sync-engine approve MAPPING`, or go back to the former document",
            ),
            Cause::Retained => {
                ("the source, or one of its targets, is not selected any more: the objects there are kept", "nothing")
            }
            Cause::Orphaned => (
                "objects of an earlier source with this name exist",
                "see [Orphaned objects](operations.md#orphaned-objects)",
            ),
            Cause::StatusFailed => (
                "a status field cannot be computed, or the server refused it; the others are written",
                "the message names the field",
            ),
            Cause::RequestFailed => ("a request failed; the engine repeats it", "see the log if it stays"),
            Cause::Waiting => (
                "an object, a kind or a server that the source needs is missing or not ready",
                "the message says what is missing",
            ),
            Cause::Unknown => ("the target cannot be read; the status stays as it is", "see `/readyz`"),
        };
        Self { meaning, what_to_do }
    }
}
