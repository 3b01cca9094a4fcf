//! Mapped files: where they end, how they move, what sharing means.

use super::*;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};

/// A file of `size` bytes that all differ from 0 and from their neighbours.
fn file(size: usize) -> OwnedFd {
    let fd = memfd_create("axp-test", MemfdFlags::CLOEXEC).unwrap();
    let bytes: Vec<u8> = (0..size).map(byte).collect();
    assert_eq!(pwrite(&fd, &bytes, 0).unwrap(), size);
    fd
}

fn byte(at: usize) -> u8 {
    (at % 251 + 1) as u8
}

/// What a kernel with 8 KB pages shows of a file of `size` bytes at offset `at`.
fn shown(size: usize, at: usize) -> Option<u8> {
    if at < size {
        Some(byte(at))
    } else {
        (at < size.next_multiple_of(PAGE_SIZE as usize)).then_some(0)
    }
}

fn compare(mem: &AddressSpace, va: u64, len: u64, offset: usize, size: usize) {
    for host_page in (0..len).step_by(4096) {
        for at in [host_page, host_page + 1, host_page + 2047, host_page + 4095] {
            let expected = match shown(size, offset + at as usize) {
                Some(byte) => Ok(byte),
                None => fault(va + at, Access::Load, FaultKind::BusError),
            };
            assert_eq!(mem.load_u8(va + at), expected, "file of {size}, {at} from {offset}");
        }
    }
}

const SIZES: [usize; 9] = [1, 4095, 4096, 4097, 8191, 8192, 8193, 12288, 12289];

#[test]
fn the_end_of_a_file_shows_as_with_8_kb_pages() {
    for size in SIZES {
        let fd = file(size);
        for (pages, offset) in [(1, 0), (2, 0), (4, 0), (2, PAGE_SIZE)] {
            for shared in [false, true] {
                let mem = AddressSpace::based().unwrap();
                let len = pages * PAGE_SIZE;
                let request = MapRequest::file(&fd, offset, len, RW).named("/file");
                let va = mem.map(&MapRequest { shared, ..request }).unwrap();
                compare(&mem, va, len, offset as usize, size);
                let region = mem.region_at(va).unwrap();
                assert_eq!(region.file.unwrap().offset, offset);
                // One mapping for the guest, however many for the host.
                assert_eq!(mem.regions().len(), 1);
                assert_eq!(mem.regions()[0].end - mem.regions()[0].start, len);
            }
        }
    }
}

#[test]
fn a_mapped_file_moves_and_grows_with_its_end() {
    for size in SIZES {
        let fd = file(size);
        for (pages, new_pages) in [(1, 1), (2, 1), (1, 2), (1, 3), (2, 4), (3, 3)] {
            for shared in [false, true] {
                let mem = AddressSpace::based().unwrap();
                let request = MapRequest::file(&fd, 0, pages * PAGE_SIZE, RW);
                mem.map(&MapRequest { shared, place: Place::Fixed(AT), ..request }).unwrap();
                let to = AT + 64 * PAGE_SIZE;
                let (old, new) = (pages * PAGE_SIZE, new_pages * PAGE_SIZE);
                mem.remap(AT, old, new, RemapPlace::Fixed(to)).unwrap();
                compare(&mem, to, new, 0, size);
                assert_eq!(mem.regions().len(), 1);
                assert_eq!(mem.load_u8(AT), fault(AT, Access::Load, FaultKind::Unmapped));
                mem.window.lock().regions.check();
                // And out again: nothing of it stays.
                mem.unmap(to, new).unwrap();
                assert!(mem.regions().is_empty());
            }
        }
    }
}

#[test]
fn stores_reach_the_file_if_it_is_shared_and_only_then() {
    let fd = file(100);
    let mem = AddressSpace::based().unwrap();
    let private = mem.map(&MapRequest::file(&fd, 0, 1, RW)).unwrap();
    let shared = mem.map(&MapRequest::file(&fd, 0, 1, RW).shared()).unwrap();
    let content = |at| {
        let mut one = [0];
        pread(&fd, &mut one, at).unwrap();
        one[0]
    };
    mem.store_u8(private + 7, 0xee).unwrap();
    assert_eq!(content(7), byte(7));
    mem.store_u8(shared + 8, 0xdd).unwrap();
    assert_eq!(content(8), 0xdd);
    // Behind the end there is memory, but no file.
    mem.store_u64(shared + 5000, u64::MAX).unwrap();
    assert_eq!(mem.load_u64(shared + 5000), Ok(u64::MAX));
    assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size, 100);
}

#[test]
fn a_file_cut_short_gives_bus_errors() {
    let fd = file(3 * PAGE_SIZE as usize);
    let mem = AddressSpace::based().unwrap();
    let va = mem.map(&MapRequest::file(&fd, 0, 3 * PAGE_SIZE, Prot::READ | Prot::EXEC)).unwrap();
    assert!(mem.fetch_u32(va + PAGE_SIZE).is_ok());
    ftruncate(&fd, PAGE_SIZE).unwrap();
    let gone = va + PAGE_SIZE;
    assert_eq!(mem.load_u64(gone), fault(gone, Access::Load, FaultKind::BusError));
    assert_eq!(mem.load_u64(gone - 4), fault(gone - 4, Access::Load, FaultKind::BusError));
    assert_eq!(mem.fetch_u32(gone), fault(gone, Access::Fetch, FaultKind::BusError));
    assert_eq!(mem.store_u8(gone, 1), fault(gone, Access::Store, FaultKind::Protected));
    assert_eq!(mem.read_bytes(gone - 2, &mut [0; 4]), {
        fault(gone, Access::Load, FaultKind::BusError)
    });
    assert!(mem.load_u32(gone - 4).is_ok());
}

#[test]
fn what_cannot_be_mapped_leaves_the_window_whole() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
    let directory = std::fs::File::open("/").unwrap();
    let bad = MapRequest::file(&directory, 0, PAGE_SIZE, RW).at(Place::Fixed(AT));
    assert!(matches!(mem.map(&bad), Err(MapError::Host(_))));
    // Old or empty, as the kernel left it, but never a hole of the host's.
    let (expected, found) = (mem.region_at(AT).is_some(), mem.store_u8(AT, 1).is_ok());
    assert_eq!(expected, found);
    let unaligned = MapRequest::file(&directory, 4096, PAGE_SIZE, RW);
    assert_eq!(mem.map(&unaligned), Err(MapError::Invalid));
    let huge = MapRequest::file(&directory, u64::MAX - PAGE_SIZE + 1, PAGE_SIZE, RW);
    assert_eq!(mem.map(&huge), Err(MapError::Overflow));
    mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
    mem.store_u8(AT, 1).unwrap();
}

#[test]
fn shared_memory_stays_shared_when_it_moves() {
    let mem = AddressSpace::based().unwrap();
    let va = mem.map(&MapRequest::anonymous(2 * PAGE_SIZE, RW).shared()).unwrap();
    mem.store_u64(va + PAGE_SIZE, 42).unwrap();
    let to = AT;
    mem.remap(va, 2 * PAGE_SIZE, 3 * PAGE_SIZE, RemapPlace::Fixed(to)).unwrap();
    assert_eq!(mem.load_u64(to + PAGE_SIZE), Ok(42));
    // The object did not grow with its mapping.
    let beyond = to + 2 * PAGE_SIZE;
    assert_eq!(mem.load_u8(beyond), fault(beyond, Access::Load, FaultKind::BusError));
}
