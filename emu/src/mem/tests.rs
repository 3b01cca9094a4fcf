//! Tests of the window: the map against a model, faults at page edges, files, isolation, threads.

use super::*;

const RW: Prot = Prot::READ.union(Prot::WRITE);
const AT: u64 = 0x1_2000_0000;

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
