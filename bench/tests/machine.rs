//! `axplab machine`, `probe` and `modes` end to end: the documentation's example, reports, refusals.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

fn axplab(args: &[&str]) -> Output {
    Command::new(AXPLAB).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A folder with one source file.
fn program(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.s");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn the_example_of_the_documentation_runs_on_every_engine() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/machine.md");
    let text = fs::read_to_string(page).unwrap();
    let source = text.split("```asm\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(source.lines().count() <= 30);
    let (_dir, path) = program(source);
    for engine in ["interp", "interp-match", "baseline", "opt", "auto"] {
        for mode in [&[][..], &["--deterministic"]] {
            let out = axplab(&[&["machine", &path, "--engine", engine], mode].concat());
            assert!(out.status.success(), "{engine}: {out:?}");
            assert_eq!(out.stdout, b"ABCDEFGHIJ\n", "{engine}");
        }
    }
}

#[test]
fn a_machine_that_stops_says_where_and_ends_with_a_status_of_its_own() {
    let cases = [
        ("call_pal 0", "HALT in kernel mode"),
        ("call_pal 0x80", "no handler for vector 0x400"),
        ("ldq r1, 1(r31)", "no handler for vector 0x280"),
        ("lda r30, -8(r31)\ncall_pal 0x80", "kernel stack not valid"),
        ("ldah r16, 0x7fff(r31)\ncall_pal 0x17\ncall_pal 0x80", "no handler for vector 0x400"),
        ("ldah r2, 0x7000(r31)\njmp r31, (r2)", "no handler for vector 0x670"),
        (".long 0x04000000", "no handler for vector 0x420"),
        (
            "lda r16, 5(r31)\ncall_pal 0x0f\nlda r16, 31(r31)\ncall_pal 0x0f\nloop: br r31, loop",
            "no interrupt taken",
        ),
    ];
    for (text, say) in cases {
        let (_dir, path) = program(text);
        let out = axplab(&["machine", &path, "--deterministic", "1000"]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(70), "{text}: {told}");
        for part in [say, "pc 0x", "kernel mode", "IPL", "last PALcode calls"] {
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}

#[test]
fn what_cannot_start_is_refused_in_one_line() {
    let (dir, path) = program("call_pal 0");
    let short = dir.path().join("short.img");
    fs::write(&short, [0; 700]).unwrap();
    let big = dir.path().join("big.s");
    fs::write(&big, ".quad 0\n".repeat(200_000)).unwrap();
    let (short, big) = (short.to_str().unwrap(), big.to_str().unwrap());
    for (args, say) in [
        (&["machine", "/nonexistent"][..], "/nonexistent"),
        (&["machine", &path, "--disk", "/nonexistent"], "/nonexistent"),
        (&["machine", &path, "--disk", short], "512-byte blocks"),
        (&["machine", &path, "--engine", "warp"], "warp"),
        (&["machine", &path, "--probe", "guess"], "guess"),
        (&["machine", big, "--memory", "1"], "does not fit"),
        (&["probe", "--probe", "guess"], "guess"),
        (&["modes", "nothing"], "unknown program `nothing`"),
        (&["machine", "/dev/null"], "`/dev/null` is empty"),
    ] {
        let out = axplab(args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(say) && told.lines().count() == 1, "{args:?}: {told}");
    }
}

#[test]
fn the_disk_is_read_and_written_by_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let mut bytes = vec![b'.'; 1024];
    bytes[512..517].copy_from_slice(b"block");
    fs::write(&image, &bytes).unwrap();
    let text = "
        lda r16, 3(r31)
        lda r17, 1(r31)
        lda r18, 1(r31)
        ldah r19, 2(r31)
        call_pal 0x09
        mov r0, r9
        lda r16, 7(r31)
        ldah r17, 2(r31)
        lda r18, 5(r31)
        call_pal 0x09
        ; Beyond the end nothing is read.
        lda r16, 3(r31)
        lda r17, 2(r31)
        lda r18, 1(r31)
        ldah r19, 2(r31)
        call_pal 0x09
        addq r0, r9, r17
        lda r16, 2(r31)
        call_pal 0x09";
    let (_dir, path) = program(text);
    let out = axplab(&["machine", &path, "--disk", image.to_str().unwrap()]);
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(1), &b"block"[..]), "{out:?}");
    assert_eq!(fs::read(&image).unwrap(), bytes, "the image itself stays as it is");
}

#[test]
fn probe_prints_the_comparison_and_writes_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("probe.json");
    let json_path = json.to_str().unwrap();
    let few = ["--iterations", "400", "-n", "1", "--probe", "walk,cached"];
    let out = axplab(&[&["probe", "--json", json_path], &few[..]].concat());
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    for part in ["walk", "cached", "interp", "auto", "7.8 s", "3.1 s", "85 s"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let record = fs::read_to_string(json).unwrap();
    assert!(record.contains("axplab-record/1") && record.contains("getsyi-exe"));
    let out = axplab(&["modes", "getsyi", "--iterations", "2000"]);
    let text = String::from_utf8(out.stdout).unwrap();
    for part in ["Interrupt State", "Kernel Mode", "User Mode", "Idle Time"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Runs a command procedure on two engines; status and output, which must agree.
fn dcl(text: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.com");
    fs::write(&path, text).unwrap();
    let run = |engine| {
        let out = axplab(&["dcl", path.to_str().unwrap(), "--engine", engine]);
        assert!(out.stderr.is_empty(), "{engine}: {out:?}");
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (one, other) = (run("interp"), run("auto"));
    assert_eq!(one, other);
    one
}

#[test]
fn command_procedures_compute_branch_and_write() {
    let text = r#"$! A comment
$ set noon
$ a = 7 ! and another
$ b = (a + 5) * 3 - -
      10 / 3
$ write sys$output "b = ", b, " and ", -b, "; ""quoted"" ! no comment"
$ total = 0
$ loop:
$ total = total + a
$ a = a - 1
$ if a .gt. 0 then goto loop
$ write sys$output "total ", total
$ if total .eq. 28 .and. .not. (b .lt. 0)
$ then
$   write sys$output "then"
$   if 1 .eq. 2
$   then
$     write sys$output "never"
$   else
$     write sys$output "inner else"
$   endif
$ else
$   if 1 .eq. 1 then write sys$output "never"
$   if 1
$   then
$     write sys$output "never"
$   endif
$ endif
$ gosub 10$
$ x := some text
$ y = "pre" + "''x'"
$ show symbol y
$ n = 'total' * 2
$ show symbol n
$ write sys$output f$length(y), " ", f$extract(3, 4, y), " ", f$locate("TEXT", y)
$ write sys$output f$element(1, ",", "a,b,c"), f$element(9, ",", "a,b"), f$integer("12") + 1
$ write sys$output f$edit("  a   b ", "TRIM,COMPRESS,UPCASE"), "|", f$string(5)
$ write sys$output f$fao("!AS=!SL !XL!!", "n", 5, 255)
$ write sys$output f$getsyi("NODENAME"), " ", %XFF, " ", "abc" .lts. "abd", " ", 2147483647 + 1
$ exit
$ 10$:
$ write sys$output "subroutine"
$ return
"#;
    let expected = r#"b = 33 and -33; "quoted" ! no comment
total 28
then
inner else
subroutine
  Y = "preSOME TEXT"
  N = 56   Hex = 00000038
12 SOME 8
b,13
A B|5
n=5 000000FF!
AXPLAB 255 1 -2147483648
"#;
    assert_eq!(dcl(text), (Some(0), expected.into()));
}

#[test]
fn faults_of_a_procedure_are_told_with_the_line() {
    for (text, ident) in [
        ("$ x = nothing + 1\n", "UNDSYM"),
        ("$ x = (1 + \n", "EXPSYN"),
        ("$ frobnicate 1\n", "IVVERB"),
        ("$ goto nowhere\n", "USGOTO"),
        ("$ x = f$nothing(1)\n", "IVFNAM"),
        ("$ endif\n", "NOIF"),
        ("$ x = %XZZ\n", "IVCHAR"),
        ("$ x = ((((((((((((((((((((((((1))))))))))))))))))))))))\n", "EXPSYN"),
        ("$ if 1 write sys$output 1\n", "NOTHEN"),
    ] {
        let (status, output) = dcl(text);
        assert!(output.contains(&format!("%DCL-W-{ident},")), "{text}: {output}");
        let line = text.trim_start_matches("$ ").trim();
        assert!(output.contains(line), "{text}: {output}");
        assert_eq!(status, Some(1), "{text}");
    }
    let (status, _) = dcl(&format!("$ x = \"{}\"\n$ exit 1\n", "a".repeat(5000)));
    assert_eq!(status, Some(0));
}

#[test]
fn procedures_know_the_time_run_images_and_handle_errors() {
    let text = r#"$ set noon
$ t = f$time()
$ write sys$output f$length(t), f$extract(2, 1, t), f$extract(11, 1, t), f$extract(20, 1, t)
$ at = "29-FEB-2024 13:05:09.25"
$ write sys$output f$cvtime(at)
$ write sys$output f$cvtime(at, "ABSOLUTE", "DATE"), "|", f$cvtime(at, , "WEEKDAY")
$ write sys$output f$cvtime("1-JAN-1900", "ABSOLUTE"), "|", f$cvtime(at,"ABSOLUTE","MONTH")
$ write sys$output f$cvtime(at,,"HOUR"), f$cvtime(at,,"SECOND"), f$cvtime(at,,"HUNDREDTH")
$ if f$cvtime("TOMORROW") .gts. f$cvtime("TODAY") then write sys$output "later"
$ if f$cvtime(,,"YEAR") .ges. "2024" then write sys$output "this age"
$ x = f$cvtime("31-FOO-2024")
$ run hello
$ write sys$output $status, " ", $severity
$ run sys$system:getsyi.exe
$ run badaddr
$ write sys$output $status
$ run nothing
$ show cpu
$ set on
$ on warning then goto handler
$ x = undefined + 1
$ write sys$output "not here"
$ handler:
$ write sys$output "handled"
$ on error then write sys$output "an error"
$ run nothing
$ write sys$output "goes on"
$ run nothing
$ write sys$output "never"
"#;
    let (status, output) = dcl(text);
    let lines: Vec<&str> = output.lines().collect();
    let expected = [
        "23- .",
        "2024-02-29 13:05:09.25",
        "29-FEB-2024|Thursday",
        " 1-JAN-1900 00:00:00.00|FEB",
        "130925",
        "later",
        "this age",
    ];
    assert_eq!(lines[..expected.len()], expected, "{output}");
    for part in [
        "%DCL-W-IVATIME,",
        "Hello from user mode\n%X00000001 1",
        "1000 calls of SYS$GETSYIW",
        "%SYSTEM-F-ACCVIO, access violation\n%X0000000C",
        "ACTIMAGE, error activating image",
        "System: AXPLAB",
        "%DCL-W-UNDSYM,",
        "handled",
        "an error\ngoes on",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert!(!output.contains("not here") && !output.contains("never"), "{output}");
    assert_eq!(status, Some(1));
}

/// Each processor but the first waits, is started, says who it is, and rings the first, which sleeps
/// between two interrupts.
#[test]
fn processors_start_each_other_and_ring() {
    let text = "
start:   br      r10, setup
clock:   call_pal 0x92
ring:    lda     r20, 1(r20)
         call_pal 0x92
other:   call_pal 0x3f                ; who am I
         lda     r17, 65(r0)
         addq    r17, r16, r17
         lda     r16, 0(r31)
         call_pal 0x09
         lda     r16, 0(r31)
         call_pal 0x0d                ; rings the first
idle:    call_pal 0x3e
         br      r31, idle
setup:   ldah    r9, 2(r31)
         lda     r16, 16(r31)
         call_pal 0x17
         stq     r10, 0x600(r9)
         lda     r11, 4(r10)
         stq     r11, 0x610(r9)
         lda     r16, 12(r31)
         call_pal 0x09
         mov     r0, r21              ; processors
         lda     r22, 1(r31)
         lda     r20, 0(r31)
next:    cmplt   r22, r21, r1
         beq     r1, done
         lda     r16, 13(r31)
         mov     r22, r17
         lda     r18, 12(r10)
         lda     r19, 32(r31)         ; lower case
         call_pal 0x09
         lda     r16, 5(r31)
         call_pal 0x0f                ; IPL 5
wait:    cmplt   r20, r22, r1
         beq     r1, rung
         call_pal 0x3e
         br      r31, wait
rung:    addq    r22, 1, r22
         br      r31, next
done:    lda     r16, 2(r31)
         mov     r20, r17
         call_pal 0x09";
    let (_dir, path) = program(text);
    for engine in ["interp", "auto"] {
        for (mode, processors) in [(&[][..], "3"), (&["--deterministic", "1000"], "3"), (&[], "1")]
        {
            let args = ["machine", &path, "--engine", engine, "--processors", processors];
            let out = axplab(&[&args[..], mode].concat());
            let more = processors == "3";
            assert_eq!(out.status.code(), Some(if more { 2 } else { 0 }), "{engine}: {out:?}");
            assert_eq!(out.stdout, if more { &b"bc"[..] } else { b"" }, "{engine} {mode:?}");
        }
    }
}
