// Rust's own threads and locks: handover right|crosswise|channel
//
// "right" hands a number over by a Mutex and a Condvar; "crosswise" takes two locks in two orders; "channel" sends through
// std::sync::mpsc.
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::thread;

fn right() {
    let shared = Arc::new((Mutex::new(None), Condvar::new()));
    let other = Arc::clone(&shared);
    let sender = thread::spawn(move || {
        *other.0.lock().unwrap() = Some(42);
        other.1.notify_one();
    });
    let mut number = shared.0.lock().unwrap();
    while number.is_none() {
        number = shared.1.wait(number).unwrap();
    }
    assert_eq!(*number, Some(42));
    drop(number);
    sender.join().unwrap();
}

fn crosswise() {
    let locks = Arc::new((Mutex::new(0), Mutex::new(0)));
    let other = Arc::clone(&locks);
    let thread = thread::spawn(move || {
        let mut b = other.1.lock().unwrap();
        let mut a = other.0.lock().unwrap();
        *a += 1;
        *b += 1;
    });
    {
        let mut a = locks.0.lock().unwrap();
        let mut b = locks.1.lock().unwrap();
        *a += 1;
        *b += 1;
    }
    thread.join().unwrap();
}

fn channel() {
    let (sender, receiver) = mpsc::channel();
    let second = sender.clone();
    let threads = [thread::spawn(move || sender.send(1).unwrap()), thread::spawn(move || second.send(2).unwrap())];
    let sum: i32 = receiver.iter().sum();
    assert_eq!(sum, 3);
    for thread in threads {
        thread.join().unwrap();
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("right") => right(),
        Some("crosswise") => crosswise(),
        _ => channel(),
    }
}
