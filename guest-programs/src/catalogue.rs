//! The model of `catalogue.toml` and `catalogue-system.toml`: parsed by serde, validated once, then read-only; the lab,
//! the tests and `cargo xtask guests` all look programs and rows up here.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::embedded;

/// What is wrong with a catalogue or a look-up in it.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The text is not the TOML this crate expects.
    #[error("guest catalogue: {0}")]
    Syntax(#[from] toml::de::Error),
    /// The text parses, but contradicts itself.
    #[error("guest catalogue, {place}: {problem}")]
    Invalid {
        /// The row or program concerned.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// No row of that name exists.
    #[error("unknown row '{name}'; rows are: {known}")]
    UnknownRow {
        /// The name asked for.
        name: String,
        /// All row names, separated by blanks.
        known: String,
    },
    /// The program has no build for that CPU.
    #[error("{program} has no {cpu} build")]
    NoSuchBuild {
        /// The program's name.
        program: String,
        /// The CPU asked for.
        cpu: Cpu,
    },
    /// The catalogue names an ELF file that was missing when this crate was built.
    #[error("{file} was missing from guest-programs/elf at build time; run `cargo xtask guests`")]
    NotEmbedded {
        /// The file's name.
        file: String,
    },
}

/// CPU models that guest programs are compiled for (gcc's `-mcpu`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpu {
    /// 21064: no byte or word memory access.
    Ev4,
    /// 21164A: BWX. Every program has this build.
    Ev56,
    /// 21264A: BWX, FIX, CIX and MVI.
    Ev67,
}

impl Cpu {
    /// The name as gcc and the lab's command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            Cpu::Ev4 => "ev4",
            Cpu::Ev56 => "ev56",
            Cpu::Ev67 => "ev67",
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of work a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Memory traffic and memory-bound sorting.
    Memory,
    /// Integer arithmetic.
    Integer,
    /// IEEE floating point.
    Fp,
    /// One feature of the architecture at a time.
    Micro,
    /// Digests and public-key arithmetic.
    Crypto,
    /// What programs ask of the system: traps, system calls, signals, changed code.
    System,
    /// Streams, disk and files.
    Io,
}

/// Whether a larger value is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    Higher,
    /// A time.
    Lower,
}

/// How a row's value follows from work and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// `work / seconds / scale`.
    WorkPerSecond,
    /// Seconds for one repetition, by `scale`.
    Seconds,
    /// The same of the whole process, from its start to its end.
    Wall,
}

/// Figures from published reports, in the row's display unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// AlphaServer DS10 6/466.
    pub ds10: Option<f64>,
    /// AlphaServer ES47, 1.15 GHz.
    pub es47: Option<f64>,
    /// AlphaVM-Pro 1.4.11 with JIT2 on a Xeon E3-1270v3.
    pub alphavm: Option<f64>,
}

/// A published figure of a system that has no column of its own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Which system, and how it was measured.
    pub system: String,
    /// The figure, in the row's display unit.
    pub value: f64,
    /// Processor use of the sender, in percent.
    pub sender_cpu: Option<f64>,
    /// Processor use of the receiver, in percent.
    pub receiver_cpu: Option<f64>,
}

/// A row's part in the nbench-style indices.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nbench {
    /// The index the row belongs to: memory, integer or fp.
    pub index: Class,
    /// The AMD K6/233 baseline in the row's display unit; the index is the geometric mean of
    /// the ratios to it.
    pub k6: f64,
}

/// One measured row: a fixed name, what its figures mean, and the results it must give.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The row's fixed name, also the kernel's first argument.
    pub name: String,
    /// One sentence for people.
    pub title: String,
    /// What kind of work it is.
    pub class: Class,
    /// The unit of the `work` that the kernel prints.
    pub unit: String,
    /// The unit of the value shown, such as `kB/s`.
    pub display_unit: String,
    /// How the value is computed.
    pub value: Value,
    /// Which direction is better.
    pub better: Better,
    /// Its group in the record, where that is not its class.
    #[serde(default)]
    pub suite: Option<String>,
    /// Divides work per second, or seconds, to give the display unit.
    #[serde(default = "one")]
    pub scale: f64,
    /// The published size, the kernel's default.
    pub size: u64,
    /// Size for quick runs; a result is comparable to published figures only if it equals `size`.
    pub quick_size: u64,
    /// Expected checksum at `size`, 16 hexadecimal digits.
    pub checksum: String,
    /// Expected checksum at `quick_size`.
    pub quick_checksum: String,
    /// Typical native seconds of one repetition at `size`, to choose repetitions by.
    pub native_seconds: f64,
    /// The same at `quick_size`.
    pub quick_native_seconds: f64,
    /// Present on the ten nbench-style rows.
    #[serde(default)]
    pub nbench: Option<Nbench>,
    /// Published figures, where there are any.
    #[serde(default)]
    pub published: Published,
    /// Published figures of further systems.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// Whether the row does what the published figures' programs did; if not, they are shown, but
    /// never taken for the same measurement.
    #[serde(default = "yes")]
    pub comparable: bool,
    /// One repetition a sample, whatever its length.
    #[serde(default)]
    pub once: bool,
    /// MiB of disk that a run needs in the folder it is started in; that folder has to be writable.
    #[serde(default)]
    pub scratch_mib: u64,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl Row {
    /// The checksum the row must print at `size`, if the catalogue knows that size.
    pub fn expected_checksum(&self, size: u64) -> Option<&str> {
        if size == self.size {
            Some(&self.checksum)
        } else if size == self.quick_size {
            Some(&self.quick_checksum)
        } else {
            None
        }
    }

    /// Whether quick mode runs a scaled-down input, which is never set beside published figures.
    pub fn quick_is_scaled(&self) -> bool {
        self.quick_size != self.size
    }

    /// The value in the display unit for `work` done in `reps` repetitions and `seconds`.
    pub fn value_of(&self, work: f64, reps: f64, seconds: f64) -> f64 {
        match self.value {
            Value::WorkPerSecond => work / seconds / self.scale,
            Value::Seconds | Value::Wall => seconds / reps / self.scale,
        }
    }
}

/// A prebuilt ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elf {
    /// The CPU it was compiled for.
    pub cpu: Cpu,
    /// File name in `guest-programs/elf`.
    pub file: String,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
}

/// One C source with its builds and rows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program's name.
    pub name: String,
    /// Path of the C source below `guest-programs`.
    pub source: String,
    /// Sources that it is linked with besides the common ones.
    #[serde(default)]
    pub also: Vec<String>,
    /// Why there is no native build, by the name of the variant.
    #[serde(default)]
    pub no_native: BTreeMap<String, String>,
    /// The prebuilt files.
    pub elf: Vec<Elf>,
    /// The rows it can measure.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

impl Program {
    /// The build for `cpu`, if there is one.
    pub fn elf(&self, cpu: Cpu) -> Option<&Elf> {
        self.elf.iter().find(|e| e.cpu == cpu)
    }

    /// The embedded bytes of the build for `cpu`.
    pub fn elf_bytes(&self, cpu: Cpu) -> Result<&'static [u8], CatalogueError> {
        let elf = self
            .elf(cpu)
            .ok_or_else(|| CatalogueError::NoSuchBuild { program: self.name.clone(), cpu })?;
        embedded::PREBUILT
            .iter()
            .find(|(file, bytes)| *file == elf.file && !bytes.is_empty())
            .map(|(_, bytes)| *bytes)
            .ok_or_else(|| CatalogueError::NotEmbedded { file: elf.file.clone() })
    }

    /// The newest build that a machine of model `cpu` can run: its own, else an older one.
    pub fn best_elf_for(&self, cpu: Cpu) -> Option<&Elf> {
        self.elf.iter().filter(|e| e.cpu <= cpu).max_by_key(|e| e.cpu)
    }
}

/// Which tools made the committed files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The cross compiler's command.
    pub command: String,
    /// First line of its `--version`.
    pub compiler: String,
    /// First line of its linker's `--version`.
    pub linker: String,
}

/// Compiler flags.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    /// For guest and `native` alike.
    pub common: Vec<String>,
    /// For the guest in addition: what makes it freestanding.
    pub guest: Vec<String>,
    /// For `native-o3`, instead of `common`.
    pub native_o3: Vec<String>,
}

/// Everything `catalogue.toml` says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// The tools that made the committed ELF files.
    pub toolchain: Toolchain,
    /// The flags they were given.
    pub flags: Flags,
    /// All programs, in the order of the report.
    #[serde(rename = "program")]
    pub programs: Vec<Program>,
    /// Published figures of rows that no program here measures.
    #[serde(rename = "elsewhere", default)]
    pub elsewhere: Vec<Elsewhere>,
}

/// A row that is measured without a program of the catalogue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Its name.
    pub name: String,
    /// Published figures, in the row's unit.
    pub references: Vec<Reference>,
}

impl Catalogue {
    /// The text of the catalogue that is part of this crate: its files, one after the other.
    pub const TEXT: &str =
        concat!(include_str!("../catalogue.toml"), "\n", include_str!("../catalogue-system.toml"));

    /// The files, below `guest-programs`.
    pub const FILES: [&str; 2] = ["catalogue.toml", "catalogue-system.toml"];

    /// The catalogue that is part of this crate.
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            Catalogue::parse(Catalogue::TEXT)
                .expect("the embedded catalogue is validated by this crate's tests")
        })
    }

    /// Parses and validates a catalogue's text.
    pub fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
        let catalogue: Catalogue = toml::from_str(text)?;
        catalogue.validate()?;
        Ok(catalogue)
    }

    /// All rows with their programs, in the order of the report.
    pub fn rows(&self) -> impl Iterator<Item = (&Program, &Row)> {
        self.programs.iter().flat_map(|p| p.rows.iter().map(move |r| (p, r)))
    }

    /// The program and row of a row name.
    pub fn find(&self, name: &str) -> Result<(&Program, &Row), CatalogueError> {
        self.rows().find(|(_, row)| row.name == name).ok_or_else(|| CatalogueError::UnknownRow {
            name: name.to_owned(),
            known: self.rows().map(|(_, r)| r.name.as_str()).collect::<Vec<_>>().join(" "),
        })
    }

    fn validate(&self) -> Result<(), CatalogueError> {
        let fail = |place: &str, problem: &str| {
            Err(CatalogueError::Invalid { place: place.to_owned(), problem: problem.to_owned() })
        };
        let hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut names = HashSet::new();
        for program in &self.programs {
            let place = program.name.as_str();
            if !names.insert(place) || program.rows.is_empty() {
                return fail(place, "program named twice, or without rows");
            }
            if program.elf(Cpu::Ev56).is_none() {
                return fail(place, "has no ev56 build");
            }
            for elf in &program.elf {
                if elf.file != format!("{place}.{}.elf", elf.cpu) {
                    return fail(place, "an ELF file is not named PROGRAM.CPU.elf");
                }
                if !hex(&elf.sha256, 64) {
                    return fail(place, "a sha256 is not 64 hexadecimal digits");
                }
            }
        }
        let mut names = HashSet::new();
        for (_, row) in self.rows() {
            let place = row.name.as_str();
            if !names.insert(place) {
                return fail(place, "row named twice");
            }
            if !hex(&row.checksum, 16) || !hex(&row.quick_checksum, 16) {
                return fail(place, "a checksum is not 16 hexadecimal digits");
            }
            if row.size == row.quick_size && row.checksum != row.quick_checksum {
                return fail(place, "two checksums for one size");
            }
            let positive = [row.scale, row.native_seconds, row.quick_native_seconds];
            if row.quick_size > row.size || !positive.iter().all(|v| *v > 0.0) {
                return fail(place, "sizes or times out of order");
            }
            if (row.value == Value::WorkPerSecond) != (row.better == Better::Higher) {
                return fail(place, "a time is better lower, a rate higher");
            }
            if row.nbench.is_some_and(|n| {
                n.k6 <= 0.0 || !matches!(n.index, Class::Memory | Class::Integer | Class::Fp)
            }) {
                return fail(place, "bad nbench baseline or index");
            }
        }
        Ok(())
    }
}

/// SHA-256 of `bytes` as the catalogue writes it.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
