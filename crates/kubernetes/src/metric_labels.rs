//! Enums whose variants are the values of a metric label.

/// Defines an enum of label values, with `ALL` in the order of the discriminants, and `as_str`.
#[macro_export]
macro_rules! label_values {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of its discriminant.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$variant),*];

            /// The label value of the variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}
