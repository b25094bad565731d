//! SE00: text and files.

use super::{Code, error, warning};

pub(super) const YAML: &[Code] = &[
    error(
        "SE0001",
        "the text is not YAML",
        "Other documents of the file are read.",
        "description: [open\n",
        "description: \"[open\"\n",
    ),
    error(
        "SE0002",
        "a key stands twice in a mapping",
        "YAML allows a key once.",
        "description: one\ndescription: two\n",
        "description: two\n",
    ),
    error(
        "SE0003",
        "the merge key `<<`",
        "YAML 1.2 has no `<<`. Templates have `$merge`.",
        "vars: {base: &base {a: 1}, more: {<<: *base, b: 2}}\n",
        "vars: {base: {a: 1}, more: {$merge: [\"${{ vars.base }}\", {b: 2}]}}\n",
    ),
    error(
        "SE0004",
        "a tag other than `!!str`",
        "Values have the type that they are written with.",
        "vars: {size: !!int \"3\"}\n",
        "vars: {size: 3}\n",
    ),
    error(
        "SE0005",
        "a key that is not a text",
        "Keys become keys of JSON, which are texts.",
        "vars: {limits: {[a]: one}}\n",
        "vars: {limits: {a: one}}\n",
    ),
    error(
        "SE0006",
        "a document too deep or, through aliases, too large",
        "A document has at most 64 levels, and aliases must not repeat much of it.",
        "vars: {deep: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}\n",
        "vars: {flat: [1]}\n",
    ),
    error(
        "SE0007",
        "a file that is not UTF-8",
        "The caret is under the first byte that is not.",
        "# a file saved as Latin-1 or UTF-16\n",
        "# the same file, saved as UTF-8\n",
    ),
    error(
        "SE0008",
        "an expression cut off by a comment",
        "In YAML ` #` begins a comment, also within an expression without quotes.",
        "vars: \n  tag: ${{ 'a #b' }}\n",
        "vars: \n  tag: \"${{ 'a #b' }}\"\n",
    ),
    error(
        "SE0009",
        "a number that JSON cannot hold, or that readers of YAML do not agree about",
        "Infinity and octal numbers with a leading zero, for example.",
        "vars: {mode: 0755}\n",
        "vars: {mode: \"0755\"}\n",
    ),
    error(
        "SE0010",
        "a file too large to be read",
        "The size of a mapping file is limited.",
        "# a file of many megabytes among the mappings\n",
        "# move what is no mapping to another directory; split what is one\n",
    ),
    error(
        "SE0011",
        "a file that cannot be read",
        "The system refuses to give it. What ran from it goes on running.",
        "# a file without read permission for the engine's user\n",
        "# give the engine's user permission to read it\n",
    ),
    warning(
        "SE0012",
        "an empty file where mappings stood",
        "Half-written files are often empty for a moment. Its mappings go on until the file is removed.",
        "# an empty file\n",
        "# write the mapping again, or remove the file\n",
    ),
];
