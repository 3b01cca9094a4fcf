//! Arguments of `axplab boot`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `axplab boot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab boot --kernel vmlinux --initrd initramfs.gz\n  \
    axplab boot --kernel vmlinux --initrd initramfs.gz --append 'console=ttyS0 quiet' --memory 256\n  \
    axplab boot --kernel vmlinux --gdb :1234    then: gdb-multiarch vmlinux -ex 'target remote :1234'\n  \
    axplab boot --kernel vmlinux --disk root.ext4 --append 'console=ttyS0 root=/dev/vda rw'\n  \
    axplab boot --kernel vmlinux --initrd F --net user,hostfwd=tcp:8080-80 \\\n    \
      --append 'console=ttyS0 ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off'\n\n\
    On a terminal, keys go to the guest as they are typed; Ctrl-] ends the machine.\n\
    Exit status: 0 after a power-off; 70 when the guest panicked or could not go on (the report is\n\
    on standard error); 130 when ended from the terminal; 2 when it cannot be started.")]
pub struct BootArgs {
    /// The kernel: an ELF file for Alpha, as its build leaves it (vmlinux)
    #[arg(long, value_name = "FILE")]
    pub kernel: PathBuf,
    /// The initial RAM disk: a cpio archive, compressed or not
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// The kernel's command line; the processor's rate (cycle=) is put in front of it
    #[arg(long, value_name = "TEXT", default_value = "console=ttyS0")]
    pub append: String,
    /// A disk: an image file or block device, which the guest finds as /dev/vda, the next one as vdb;
    /// `,ro` behind the name for one that is only read
    #[arg(long, value_name = "FILE[,ro]")]
    pub disk: Vec<OsString>,
    /// A network card, with a network of its own behind it (`user`), through which the guest reaches what
    /// this program can; or a TAP interface of the host (`tap=NAME`). hostfwd=tcp:8080-80 behind `user,`
    /// leads port 8080 of this host to port 80 of the guest
    #[arg(long, value_name = "user[,hostfwd=tcp:PORT-PORT]|tap=NAME")]
    pub net: Option<String>,
    /// Megabytes of memory
    #[arg(long, short, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub memory: u64,
    /// Processors, which a kernel for one leaves alone
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub cpus: u8,
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// Count instructions and make time of them, so that runs repeat exactly
    #[arg(long)]
    pub deterministic: bool,
    /// Wait for gdb at HOST:PORT, :PORT or the path of a socket, and boot the kernel under it
    #[arg(long, value_name = "ADDR", conflicts_with = "deterministic")]
    pub gdb: Option<String>,
    /// Print what was executed and translated, at the end
    #[arg(long)]
    pub stats: bool,
}
