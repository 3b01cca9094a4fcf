//! The native twins: the same C sources compiled for the host by the build script, so that the
//! lab can set an engine's time beside the host's own. Embedded, so that an installed binary
//! finds them; the caller writes them to a file to run them.

use crate::catalogue::Program;
use crate::embedded;

/// How a native twin was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// The guest's flags, own math and memory functions: the honest comparison.
    Same,
    /// `-O3 -march=native` with the host's libraries: what the host can do. Floating-point
    /// contraction stays off, so that results agree bit for bit; rows whose result depends on
    /// libm compare it with their own functions' within 1e-9 and print the latter's checksum.
    O3,
}

impl Variant {
    /// The engine name the lab shows.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Same => "native",
            Variant::O3 => "native-o3",
        }
    }
}

/// Why a program has no native twin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {reason}")]
pub struct NativeMissing {
    /// The program's name.
    pub program: String,
    /// What happened when the crate was built.
    pub reason: String,
}

/// The executable of a program's native twin.
pub fn native(program: &Program, variant: Variant) -> Result<&'static [u8], NativeMissing> {
    let missing =
        |reason: &str| NativeMissing { program: program.name.clone(), reason: reason.to_owned() };
    embedded::NATIVE
        .iter()
        .find(|(name, kind, _)| *name == program.name && *kind == variant.name())
        .ok_or_else(|| missing("not built"))?
        .2
        .map_err(missing)
}

/// First line of the host compiler's version, if one was found when the crate was built.
pub fn native_compiler() -> Option<&'static str> {
    embedded::COMPILER
}
