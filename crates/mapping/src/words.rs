//! Enums whose variants are words: of the language, of an output, of a label.

/// Enums whose variants are words. Each has `ALL`, its variants in their order; `as_str`, the word of a variant; and
/// `Serialize`, which writes that word.
///
/// Attributes pass through. Who derives `Deserialize` sees to it that it reads the same words: the names of the variants, unless
/// an attribute of serde says otherwise.
#[macro_export]
macro_rules! words {
    ($(
        $(#[$about:meta])*
        $visibility:vis enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$about])*
        $visibility enum $name {
            $($(#[$of])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order above.
            #[allow(dead_code, reason = "not everybody needs all words")]
            pub const ALL: [Self; [$($word,)+].len()] = [$(Self::$variant,)+];

            /// Its word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )+};
}
