//! Tests of the window: the map against a model, faults at page edges, files, isolation, threads.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

mod files;
mod handlers;
mod model;

const RW: Prot = Prot::READ.union(Prot::WRITE);
const AT: u64 = 0x1_2000_0000;

/// Ends the loops of a test's threads, also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn fault<T: std::fmt::Debug>(va: u64, access: Access, why: FaultKind) -> Result<T, MemFault> {
    Err(MemFault { va, access, why })
}

fn fixed(len: u64, prot: Prot, va: u64) -> MapRequest<'static> {
    MapRequest::anonymous(len, prot).at(Place::Fixed(va))
}

#[test]
fn values_of_every_size_round_trip_at_every_alignment() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(2 * PAGE_SIZE, RW, AT)).unwrap();
    let pattern = 0x8877_6655_4433_2211_u64;
    for va in (AT + PAGE_SIZE - 9)..(AT + PAGE_SIZE + 2) {
        mem.store_u64(va, pattern).unwrap();
        assert_eq!(mem.load_u64(va), Ok(pattern));
        assert_eq!(mem.load_u8(va + 3), Ok(0x44));
        assert_eq!(mem.load_u16(va + 2), Ok(0x4433));
        assert_eq!(mem.load_u32(va + 4), Ok(0x8877_6655));
        mem.store_u8(va, 0xaa).unwrap();
        mem.store_u16(va + 1, 0xbbcc).unwrap();
        mem.store_u32(va + 3, 0xdeca_fbad).unwrap();
        assert_eq!(mem.read_array(va), Ok([0xaa, 0xcc, 0xbb, 0xad, 0xfb, 0xca, 0xde, 0x88]));
    }
}

#[test]
fn an_access_over_the_edge_of_a_page_faults_and_stores_nothing() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
    mem.map(&fixed(PAGE_SIZE, Prot::READ, AT + 2 * PAGE_SIZE)).unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT + 3 * PAGE_SIZE)).unwrap();
    let end = AT + PAGE_SIZE;
    for back in 1..8 {
        let va = end - back;
        assert_eq!(mem.store_u64(va, u64::MAX), fault(va, Access::Store, FaultKind::Unmapped));
        assert_eq!(mem.load_u64(va), fault(va, Access::Load, FaultKind::Unmapped));
        let va = AT + 3 * PAGE_SIZE - back;
        assert_eq!(mem.store_u64(va, u64::MAX), fault(va, Access::Store, FaultKind::Protected));
        assert_eq!(mem.load_u64(va), Ok(0));
    }
    for back in 1..4 {
        let va = end - back;
        assert_eq!(mem.store_u32(va, u32::MAX), fault(va, Access::Store, FaultKind::Unmapped));
    }
    let va = end - 1;
    assert_eq!(mem.store_u16(va, u16::MAX), fault(va, Access::Store, FaultKind::Unmapped));
    let mut all = vec![1; PAGE_SIZE as usize];
    mem.read_bytes(AT, &mut all).unwrap();
    assert!(all.iter().all(|&b| b == 0), "a part of a store that faulted was stored");
    mem.read_bytes(AT + 3 * PAGE_SIZE, &mut all).unwrap();
    assert!(all.iter().all(|&b| b == 0), "a part of a store that faulted was stored");
}

#[test]
fn wild_addresses_are_out_of_the_window_and_touch_nothing() {
    let mem = AddressSpace::based().unwrap();
    let own = Box::new(0x1234_u64);
    let own_at = &raw const *own as u64;
    let last = WINDOW_SIZE - PAGE_SIZE;
    mem.map(&fixed(PAGE_SIZE, RW | Prot::EXEC, last)).unwrap();
    let end = WINDOW_SIZE;
    // The own object's address as it is, and as the distance that would lead there.
    let own_distance = own_at.wrapping_sub(mem.host_base());
    for va in [end, end + 8, 1 << 63, u64::MAX - 7, u64::MAX, own_at, own_distance] {
        let out = FaultKind::OutOfWindow;
        assert_eq!(mem.load_u8(va), fault(va, Access::Load, out));
        assert_eq!(mem.load_u16(va), fault(va, Access::Load, out));
        assert_eq!(mem.load_u32(va), fault(va, Access::Load, out));
        assert_eq!(mem.load_u64(va), fault(va, Access::Load, out));
        assert_eq!(mem.store_u8(va, 1), fault(va, Access::Store, out));
        assert_eq!(mem.store_u64(va, 1), fault(va, Access::Store, out));
        assert_eq!(mem.fetch_u32(va & !3), fault(va & !3, Access::Fetch, out));
        assert!(!mem.executable_page(va));
        assert_eq!(mem.fetch_words(va & !3, &mut [0; 2]), 0);
        let exchanged = mem.compare_exchange_u64(va & !7, 0x1234, 1);
        assert_eq!(exchanged, fault(va & !7, Access::Store, out));
        assert_eq!(mem.read_bytes(va, &mut [0; 2]), fault(va, Access::Load, out));
        assert_eq!(mem.write_bytes(va, &[1]), fault(va, Access::Store, out));
        assert_eq!(mem.zero_bytes(va, 1), fault(va, Access::Store, out));
        assert_eq!(mem.read_cstr(va, 9), fault(va, Access::Load, out));
        assert_eq!(mem.host_range(va, 1, Access::Load), fault(va, Access::Load, out));
        for place in [Place::Fixed(va), Place::FixedNoReplace(va)] {
            assert!(mem.map(&MapRequest::anonymous(1, RW).at(place)).is_err());
        }
        let page = va & !(PAGE_SIZE - 1);
        assert!(mem.map(&fixed(PAGE_SIZE, RW, page)).is_err());
        assert!(mem.unmap(page, PAGE_SIZE).is_err());
        assert!(mem.protect(page, PAGE_SIZE, RW).is_err());
        assert!(mem.advise(page, PAGE_SIZE, Advice::DontNeed).is_err());
        let to = RemapPlace::Fixed(page);
        assert!(mem.remap(page, PAGE_SIZE, 2 * PAGE_SIZE, RemapPlace::MayMove).is_err());
        assert!(mem.remap(last, PAGE_SIZE, PAGE_SIZE, to).is_err());
        assert!(mem.region_at(va).is_none());
    }
    // Over the end: all of a store or nothing; whole ranges before the first byte.
    for va in end - 7..end {
        assert_eq!(mem.store_u64(va, u64::MAX), fault(va, Access::Store, FaultKind::OutOfWindow));
        assert_eq!(mem.load_u64(va), fault(va, Access::Load, FaultKind::OutOfWindow));
        let over = fault(end, Access::Store, FaultKind::OutOfWindow);
        assert_eq!(mem.write_bytes(va, &[0xff; 8]), over);
    }
    assert_eq!(mem.load_u64(end - 8), Ok(0));
    assert_eq!(mem.load_u8(end - 1), Ok(0));
    assert!(mem.map(&fixed(2 * PAGE_SIZE, RW, last)).is_err());
    for len in [u64::MAX, u64::MAX - PAGE_SIZE, end, end + 1] {
        assert!(mem.map(&fixed(len, RW, last)).is_err());
        assert!(mem.unmap(last, len).is_err());
        assert!(mem.protect(last, len, Prot::READ).is_err());
        assert!(mem.host_range(last, len, Access::Load).is_err());
        assert!(mem.check(last, len, Access::Load).is_err());
        assert!(mem.remap(last, PAGE_SIZE, len, RemapPlace::MayMove).is_err());
        assert!(mem.remap(last, len, PAGE_SIZE, RemapPlace::MayMove).is_err());
    }
    assert_eq!(*own, 0x1234);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mem = AddressSpace::based().unwrap();
    let low = mem.lowest_address() - PAGE_SIZE;
    assert_eq!(mem.map(&fixed(0, RW, AT)), Err(MapError::Invalid));
    assert_eq!(mem.map(&fixed(1, RW, AT + 4096)), Err(MapError::Invalid));
    assert_eq!(mem.map(&fixed(1, RW, low)), Err(MapError::TooLow));
    assert_eq!(mem.map(&MapRequest::anonymous(WINDOW_SIZE, RW)), Err(MapError::NoMemory));
    assert_eq!(mem.map(&fixed(1, RW, AT)), Ok(AT));
    let again = MapRequest::anonymous(1, RW).at(Place::FixedNoReplace(AT));
    assert_eq!(mem.map(&again), Err(MapError::Exists));
    assert_eq!(mem.unmap(AT, 0), Err(MapError::Invalid));
    assert_eq!(mem.unmap(AT + 8, 8), Err(MapError::Invalid));
    assert_eq!(mem.unmap(AT + PAGE_SIZE, PAGE_SIZE), Ok(()));
    assert_eq!(mem.protect(AT + 8, 8, RW), Err(MapError::Invalid));
    assert_eq!(mem.protect(AT + 3 * PAGE_SIZE, 0, RW), Ok(()));
    assert_eq!(mem.protect(AT, 2 * PAGE_SIZE, Prot::READ), Err(MapError::Hole));
    assert_eq!(mem.store_u8(AT, 1), fault(AT, Access::Store, FaultKind::Protected));
    let far = AT + 16 * PAGE_SIZE;
    for (va, old, new, place, error) in [
        (AT + 1, 1, 1, RemapPlace::MayMove, MapError::Invalid),
        (AT, 0, 1, RemapPlace::MayMove, MapError::Invalid),
        (AT, 1, 0, RemapPlace::MayMove, MapError::Invalid),
        (far, 1, 1, RemapPlace::MayMove, MapError::NotOneMapping),
        (AT, 2 * PAGE_SIZE, 1, RemapPlace::MayMove, MapError::NotOneMapping),
        (AT, 1, 1, RemapPlace::Fixed(AT), MapError::Invalid),
        (AT, 1, 1, RemapPlace::Fixed(AT + 9), MapError::Invalid),
        (AT, 1, 1, RemapPlace::Fixed(low), MapError::TooLow),
        (AT, 1, 1, RemapPlace::Fixed(WINDOW_SIZE - 1), MapError::Invalid),
    ] {
        assert_eq!(mem.remap(va, old, new, place), Err(error), "{va:#x} {old} {new} {place:?}");
    }
    assert!(mem.region_at(AT).is_some());
}

#[test]
fn searches_go_from_the_hint_then_the_base_then_the_bottom() {
    let mem = AddressSpace::based().unwrap();
    let any = |hint| MapRequest::anonymous(PAGE_SIZE, RW).at(Place::Anywhere(hint));
    assert_eq!(mem.map(&any(0)), Ok(WINDOW_SIZE / 2));
    assert_eq!(mem.map(&any(0)), Ok(WINDOW_SIZE / 2 + PAGE_SIZE));
    assert_eq!(mem.map(&any(AT + 1)), Ok(AT + PAGE_SIZE));
    assert_eq!(mem.map(&any(AT)), Ok(AT));
    assert_eq!(mem.map(&any(AT)), Ok(AT + 2 * PAGE_SIZE));
    assert_eq!(mem.map(&any(1)), Ok(mem.lowest_address()));
    // What becomes free is found again; a wild hint is none.
    assert_eq!(mem.map(&any(u64::MAX)), Ok(WINDOW_SIZE / 2 + 2 * PAGE_SIZE));
    mem.unmap(WINDOW_SIZE / 2 + PAGE_SIZE, PAGE_SIZE).unwrap();
    assert_eq!(mem.map(&any(WINDOW_SIZE)), Ok(WINDOW_SIZE / 2 + PAGE_SIZE));
    assert_eq!(mem.map(&any(0)), Ok(WINDOW_SIZE / 2 + 3 * PAGE_SIZE));
    mem.set_search(0x4000_0000, 0x8000_0000);
    assert_eq!(mem.map(&any(0)), Ok(0x4000_0000));
    assert_eq!(mem.map(&fixed(1, RW, 0x7000_0000)), Ok(0x7000_0000));
    assert_eq!(mem.find_free(0, 0x3800_0000), Some(mem.lowest_address() + PAGE_SIZE));
    assert_eq!(mem.find_free(0, 0x4000_0000), None);
    assert_eq!(mem.find_free(AT, 1), Some(0x4000_0000 + PAGE_SIZE));
    assert_eq!(mem.map(&fixed(1, RW, AT)), Err(MapError::NoMemory));
}

#[test]
fn regions_are_merged_and_cut_as_a_kernel_lists_them() {
    let mem = AddressSpace::based().unwrap();
    for page in 0..4 {
        mem.map(&fixed(PAGE_SIZE, RW, AT + page * PAGE_SIZE)).unwrap();
    }
    let list = |mem: &AddressSpace| -> Vec<(u64, u64, String)> {
        let page = |va| (va - AT) / PAGE_SIZE;
        mem.regions().iter().map(|r| (page(r.start), page(r.end), r.prot.to_string())).collect()
    };
    let row = |start, end, prot: &str| (start, end, prot.to_owned());
    assert_eq!(list(&mem), [row(0, 4, "rw-")]);
    mem.protect(AT + PAGE_SIZE, PAGE_SIZE, Prot::READ | Prot::EXEC).unwrap();
    assert_eq!(list(&mem), [row(0, 1, "rw-"), row(1, 2, "r-x"), row(2, 4, "rw-")]);
    mem.unmap(AT + 3 * PAGE_SIZE, PAGE_SIZE).unwrap();
    mem.protect(AT + PAGE_SIZE, PAGE_SIZE, RW).unwrap();
    assert_eq!(list(&mem), [row(0, 3, "rw-")]);
    // Named and shared memory keeps apart.
    mem.map(&fixed(PAGE_SIZE, RW, AT + 3 * PAGE_SIZE).named("[heap]")).unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT + 4 * PAGE_SIZE).shared()).unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT + 5 * PAGE_SIZE).shared()).unwrap();
    assert_eq!(mem.regions().len(), 4);
    mem.unmap_all().unwrap();
    assert!(mem.regions().is_empty());
    assert_eq!(mem.load_u8(AT), fault(AT, Access::Load, FaultKind::Unmapped));
}

#[test]
fn instructions_come_from_executable_pages_only() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(4 * PAGE_SIZE, RW, AT)).unwrap();
    mem.store_u32(AT + PAGE_SIZE - 4, 0x47ff_041f).unwrap();
    mem.store_u32(AT + PAGE_SIZE, 0x6bfa_8001).unwrap();
    let epoch = mem.exec_epoch();
    let word = AT + PAGE_SIZE - 4;
    assert_eq!(mem.fetch_u32(word), fault(word, Access::Fetch, FaultKind::Protected));
    mem.protect(AT, PAGE_SIZE, Prot::READ | Prot::EXEC).unwrap();
    let after = mem.exec_epoch();
    assert_ne!(after, epoch);
    assert_eq!(mem.fetch_u32(word), Ok(0x47ff_041f));
    assert_eq!(mem.fetch_u32(word + 2), fault(word + 2, Access::Fetch, FaultKind::Unaligned));
    let mut words = [0; 3];
    assert_eq!(mem.fetch_words(word, &mut words), 1);
    // A page that can only be executed: no loads, but instructions.
    mem.protect(AT, 2 * PAGE_SIZE, Prot::EXEC).unwrap();
    assert_eq!(mem.load_u32(word), fault(word, Access::Load, FaultKind::Protected));
    assert_eq!(mem.fetch_words(word, &mut words), 3);
    assert_eq!(words, [0x47ff_041f, 0x6bfa_8001, 0]);
    assert_eq!(mem.load_u32(word), fault(word, Access::Load, FaultKind::Protected));
    // Every way to change it moves the epoch, and data changes do not.
    let mut last = mem.exec_epoch();
    let mut moved = |what: &str, expected: bool| {
        let now = mem.exec_epoch();
        assert_eq!(now != last, expected, "{what}");
        last = now;
    };
    mem.advise(AT, PAGE_SIZE, Advice::DontNeed).unwrap();
    moved("advise", true);
    let to = AT + 16 * PAGE_SIZE;
    mem.remap(AT, PAGE_SIZE, PAGE_SIZE, RemapPlace::Fixed(to)).unwrap();
    moved("remap", true);
    assert!(mem.executable_page(to) && !mem.executable_page(AT));
    mem.map(&fixed(PAGE_SIZE, RW, to)).unwrap();
    moved("map over", true);
    assert!(!mem.executable_page(to));
    mem.unmap(AT + PAGE_SIZE, PAGE_SIZE).unwrap();
    moved("unmap", true);
    mem.map(&fixed(PAGE_SIZE, Prot::READ | Prot::EXEC, AT)).unwrap();
    moved("map", true);
    mem.map(&fixed(PAGE_SIZE, RW, to)).unwrap();
    mem.protect(to, PAGE_SIZE, Prot::READ).unwrap();
    mem.advise(to, PAGE_SIZE, Advice::DontNeed).unwrap();
    mem.unmap(to, PAGE_SIZE).unwrap();
    moved("data", false);
    let gone = AT + PAGE_SIZE;
    assert_eq!(mem.fetch_u32(gone), fault(gone, Access::Fetch, FaultKind::Unmapped));
}

#[test]
fn copies_stop_at_the_first_bad_byte_and_name_it() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(2 * PAGE_SIZE, RW, AT)).unwrap();
    mem.protect(AT + PAGE_SIZE, PAGE_SIZE, Prot::READ).unwrap();
    let (middle, end) = (AT + PAGE_SIZE, AT + 2 * PAGE_SIZE);
    assert_eq!(mem.write_bytes(middle - 3, b"abcdef"), {
        fault(middle, Access::Store, FaultKind::Protected)
    });
    let mut out = [0xff; 8];
    mem.read_bytes(middle - 4, &mut out).unwrap();
    assert_eq!(&out, b"\0abc\0\0\0\0");
    let over = mem.read_bytes(end - 4, &mut out);
    assert_eq!(over, fault(end, Access::Load, FaultKind::Unmapped));
    assert_eq!(mem.zero_bytes(middle - 3, 9), fault(middle, Access::Store, FaultKind::Protected));
    assert_eq!(mem.check(AT, 2 * PAGE_SIZE, Access::Load), Ok(()));
    let checked = mem.check(AT + 1, 2 * PAGE_SIZE, Access::Load);
    assert_eq!(checked, fault(end, Access::Load, FaultKind::Unmapped));
    let checked = mem.check(AT + 1, PAGE_SIZE, Access::Store);
    assert_eq!(checked, fault(middle, Access::Store, FaultKind::Protected));
    assert!(mem.is_mapped(AT, 2 * PAGE_SIZE) && !mem.is_mapped(AT, 2 * PAGE_SIZE + 1));

    mem.write_bytes(AT, b"text\0").unwrap();
    assert_eq!(mem.read_cstr(AT, 5), Ok(Some(b"text".to_vec())));
    assert_eq!(mem.read_cstr(AT, 4), Ok(None));
    mem.write_bytes(AT, &[b'x'; PAGE_SIZE as usize]).unwrap();
    assert_eq!(mem.read_cstr(AT, 1 << 20).unwrap().unwrap().len(), PAGE_SIZE as usize);
    mem.protect(AT, 2 * PAGE_SIZE, RW).unwrap();
    mem.write_bytes(middle, &[b'y'; PAGE_SIZE as usize]).unwrap();
    assert_eq!(mem.read_cstr(AT, 1 << 20), fault(end, Access::Load, FaultKind::Unmapped));
    mem.store_u8(end - 1, 0).unwrap();
    assert_eq!(mem.read_cstr(end - 3, 1 << 20), Ok(Some(b"yy".to_vec())));
    assert_eq!(mem.read_bytes(end, &mut []), Ok(()));
}

#[test]
fn twenty_windows_live_side_by_side() {
    let windows: Vec<_> = (0..20).map(|_| AddressSpace::based().unwrap()).collect();
    for (i, mem) in windows.iter().enumerate() {
        assert_eq!(mem.kind(), WindowKind::Based);
        mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
        mem.store_u64(AT, i as u64).unwrap();
    }
    for (i, mem) in windows.iter().enumerate() {
        assert_eq!(mem.load_u64(AT), Ok(i as u64));
    }
}

#[test]
fn compare_exchange_counts_exactly_between_threads() {
    let mem = AddressSpace::based().unwrap();
    mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
    const EACH: u64 = 50_000;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    while {
                        let old = mem.load_u64(AT).unwrap();
                        !mem.compare_exchange_u64(AT, old, old + 1).unwrap()
                    } {}
                    while {
                        let old = mem.load_u32(AT + 8).unwrap();
                        !mem.compare_exchange_u32(AT + 8, old, old + 1).unwrap()
                    } {}
                }
            });
        }
    });
    assert_eq!(mem.load_u64(AT), Ok(4 * EACH));
    assert_eq!(mem.load_u64(AT + 8), Ok(4 * EACH));
    let odd = AT + 4;
    let unaligned = mem.compare_exchange_u64(odd, 0, 1);
    assert_eq!(unaligned, fault(odd, Access::Store, FaultKind::Unaligned));
    mem.protect(AT, PAGE_SIZE, Prot::READ).unwrap();
    // Even an exchange that would not store needs the right to.
    let refused = mem.compare_exchange_u32(AT, 77, 1);
    assert_eq!(refused, fault(AT, Access::Store, FaultKind::Protected));
}

#[test]
fn a_frozen_map_is_whole_in_a_forked_child() {
    let mem = AddressSpace::based().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                mem.map(&fixed(PAGE_SIZE, RW, AT)).unwrap();
                mem.unmap(AT, PAGE_SIZE).unwrap();
            }
        });
        let _stop = StopOnDrop(&stop);
        for _ in 0..50 {
            let frozen = mem.freeze();
            // SAFETY: the child uses the window and leaves at once.
            let pid = unsafe { libc::fork() };
            drop(frozen);
            if pid == 0 {
                let mapped = mem.region_at(AT).is_some() == mem.load_u8(AT).is_ok()
                    && mem.map(&fixed(PAGE_SIZE, RW, AT)) == Ok(AT)
                    && mem.store_u8(AT, 1).is_ok()
                    && mem.load_u8(0).is_err();
                // SAFETY: ends the child without running anything of the test's.
                unsafe { libc::_exit(if mapped { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: waits for the child that was just made.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            assert_eq!(status, 0);
        }
    });
}

#[test]
fn accesses_race_with_changes_of_the_map_without_harm() {
    let mem = AddressSpace::based().unwrap();
    let other = AT + 64 * PAGE_SIZE;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2_u64)
            .map(|seed| {
                let (mem, stop) = (&mem, &stop);
                scope.spawn(move || {
                    let (mut hits, mut n) = (0_u64, seed);
                    while !stop.load(Ordering::Relaxed) {
                        n = n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        let va = AT + (n >> 40) % (4 * PAGE_SIZE - 8);
                        let outcomes = [
                            mem.store_u64(va, 0x0101_0101_0101_0101),
                            mem.load_u64(va).map(|v| {
                                // Nothing but what was stored or fresh zeros.
                                assert_eq!(v & !0x0101_0101_0101_0101, 0);
                            }),
                        ];
                        for outcome in outcomes {
                            match outcome {
                                Ok(()) => hits += 1,
                                Err(fault) => assert!(matches!(
                                    fault.why,
                                    FaultKind::Unmapped | FaultKind::Protected
                                )),
                            }
                        }
                    }
                    hits
                })
            })
            .collect();
        let stopper = StopOnDrop(&stop);
        for round in 0..1000 {
            let len = (round % 4 + 1) * PAGE_SIZE;
            mem.map(&fixed(len, RW, AT)).unwrap();
            mem.protect(AT, PAGE_SIZE, Prot::READ).unwrap();
            mem.remap(AT, PAGE_SIZE, PAGE_SIZE, RemapPlace::Fixed(other)).unwrap();
            mem.remap(other, PAGE_SIZE, PAGE_SIZE, RemapPlace::Fixed(AT)).unwrap();
            mem.unmap(AT, len).unwrap();
        }
        mem.map(&fixed(4 * PAGE_SIZE, RW, AT)).unwrap();
        // On a busy machine a worker may not have run yet.
        while mem.load_u64(AT + PAGE_SIZE).unwrap() == 0 {
            std::thread::yield_now();
        }
        drop(stopper);
        assert!(workers.into_iter().map(|w| w.join().unwrap()).sum::<u64>() > 0);
    });
}
